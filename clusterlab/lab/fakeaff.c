/* fakeaff: sched_setaffinity and sched_getaffinity over pretend CPUs, by LD_PRELOAD.
 *
 * A simulated node claims FAKEAFF_NCPU CPUs; the machine has fewer. A mask that a process sets is kept
 * in FAKEAFF_DIR/<pid>.<start time>, and the real mask becomes the pretend one folded onto the CPUs in
 * FAKEAFF_REAL (a comma-separated list). A process reads its own pretend mask or its nearest ancestor's,
 * else all pretend CPUs: so Slurm, taskset, nproc and os.sched_getaffinity agree with each other.
 * Not covered: direct system calls (numactl), /proc/<pid>/status, /sys.
 *
 * Without FAKEAFF_DIR it changes nothing. With FAKEAFF_USERNS=1, setgroups() may fail with EPERM as if
 * it had succeeded: a user namespace of one uid denies it, and Slurm's daemons insist on it for uid 0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MASK_BYTES 128 /* 1024 CPUs */

static const char *mask_dir(void)
{
    const char *dir = getenv("FAKEAFF_DIR");
    return dir && *dir ? dir : NULL;
}

static int pretend_cpus(void)
{
    const char *text = getenv("FAKEAFF_NCPU");
    int n = text ? atoi(text) : 0;
    return n > 0 && n <= MASK_BYTES * 8 ? n : 1;
}

/* The real CPUs that pretend CPUs are folded onto; returns how many. */
static int real_cpus(int *cpus, int room)
{
    const char *text = getenv("FAKEAFF_REAL");
    int n = 0;
    while (text && *text && n < room) {
        char *end;
        long cpu = strtol(text, &end, 10);
        if (end == text)
            break;
        if (cpu >= 0 && cpu < CPU_SETSIZE)
            cpus[n++] = (int)cpu;
        text = *end == ',' ? end + 1 : end;
    }
    if (n == 0)
        cpus[n++] = 0;
    return n;
}

/* Parent and start time of a process: the pair (pid, start time) is never reused. */
static int stat_of(pid_t pid, pid_t *parent, unsigned long long *start)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return -1;
    text[n] = 0;
    /* The command's name may hold spaces and brackets: fields count from the last ')'. */
    char *rest = strrchr(text, ')');
    if (!rest)
        return -1;
    int ppid;
    if (sscanf(rest + 2,
               "%*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &ppid, start) != 2)
        return -1;
    *parent = ppid;
    return 0;
}

static int open_mask(pid_t pid, unsigned long long start, int flags)
{
    char path[512];
    int n = snprintf(path, sizeof path, "%s/%d.%llu", mask_dir(), (int)pid, start);
    if (n < 0 || (size_t)n >= sizeof path)
        return -1;
    return open(path, flags | O_CLOEXEC, 0644);
}

/* 1: the mask of exactly this process was read into bits. 0: it has none. -1: no such process. */
static int own_mask(pid_t pid, unsigned char *bits, pid_t *parent)
{
    unsigned long long start;
    if (stat_of(pid, parent, &start) < 0)
        return -1;
    int fd = open_mask(pid, start, O_RDONLY);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, bits, MASK_BYTES);
    close(fd);
    return n == MASK_BYTES;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
    if (!mask_dir())
        return (int)syscall(SYS_sched_setaffinity, pid, size, set);

    unsigned char bits[MASK_BYTES] = {0};
    cpu_set_t folded;
    CPU_ZERO(&folded);
    int real[CPU_SETSIZE];
    int n_real = real_cpus(real, CPU_SETSIZE), n = pretend_cpus(), any = 0;
    for (int cpu = 0; cpu < n && (size_t)cpu < size * 8; cpu++) {
        if (!CPU_ISSET_S(cpu, size, set))
            continue;
        any = 1;
        bits[cpu / 8] |= (unsigned char)(1u << (cpu % 8));
        CPU_SET(real[cpu % n_real], &folded);
    }
    if (!any) {
        errno = EINVAL;
        return -1;
    }
    if (syscall(SYS_sched_setaffinity, pid, sizeof folded, &folded) < 0)
        return -1;

    /* As the kernel does, 0 means this thread. */
    pid_t target = pid ? pid : (pid_t)syscall(SYS_gettid), parent;
    unsigned long long start;
    if (stat_of(target, &parent, &start) < 0)
        return 0;
    int fd = open_mask(target, start, O_WRONLY | O_CREAT | O_TRUNC);
    if (fd >= 0) {
        ssize_t written = write(fd, bits, sizeof bits);
        (void)written;
        close(fd);
    }
    return 0;
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    memset(set, 0, size);
    if (!mask_dir())
        return syscall(SYS_sched_getaffinity, pid, size, set) < 0 ? -1 : 0;
    int n = pretend_cpus();
    if (size * 8 < (size_t)n) {
        errno = EINVAL;
        return -1;
    }
    unsigned char bits[MASK_BYTES] = {0};
    size_t room = size < MASK_BYTES ? size : MASK_BYTES;
    pid_t parent, process = pid ? pid : (pid_t)syscall(SYS_getpid);
    if (!pid && own_mask((pid_t)syscall(SYS_gettid), bits, &parent) == 1) {
        memcpy(set, bits, room);
        return 0;
    }
    for (int first = 1; process > 0; process = parent, first = 0) {
        int found = own_mask(process, bits, &parent);
        if (found == 1) {
            memcpy(set, bits, room);
            return 0;
        }
        if (found < 0) {
            if (first) {
                errno = ESRCH;
                return -1;
            }
            break;
        }
    }
    for (int cpu = 0; cpu < n; cpu++)
        CPU_SET_S(cpu, size, set);
    return 0;
}

int setgroups(size_t n, const gid_t *groups)
{
    int result = (int)syscall(SYS_setgroups, n, groups);
    return result < 0 && errno == EPERM && getenv("FAKEAFF_USERNS") ? 0 : result;
}

int initgroups(const char *user, gid_t group)
{
    if (!getenv("FAKEAFF_USERNS")) {
        /* What glibc does, without a look-up of the next definition by dlsym. */
        gid_t groups[256];
        int n = 256;
        if (getgrouplist(user, group, groups, &n) < 0)
            n = 256;
        return setgroups((size_t)n, groups);
    }
    return setgroups(1, &group);
}
