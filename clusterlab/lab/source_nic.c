/* sourcenic: what a rank sends to NICs of the lab leaves by the rank's own NIC, by LD_PRELOAD.
 *
 * gloo binds its listening socket to the interface it is told, but its connections take their source
 * address from the routing table: to another rail they would leave by that rail's NIC. Here connect()
 * binds a socket that has no address yet to SOURCENIC, an IPv4 address of this host, where it goes into
 * the same /16: the data network. Routing by source does the rest.
 *
 * Without SOURCENIC it changes nothing. Not covered: programs that make the system call themselves.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24 /* linux/in.h; since Linux 4.2 */
#endif

/* The IPv4 address in addr, plain or mapped into IPv6; 0 where there is none. Network byte order. */
static in_addr_t ipv4_of(const struct sockaddr *addr, socklen_t size)
{
    if (addr->sa_family == AF_INET && size >= sizeof(struct sockaddr_in))
        return ((const struct sockaddr_in *)addr)->sin_addr.s_addr;
    if (addr->sa_family == AF_INET6 && size >= sizeof(struct sockaddr_in6)) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)addr)->sin6_addr;
        in_addr_t four;
        if (IN6_IS_ADDR_V4MAPPED(six)) {
            memcpy(&four, &six->s6_addr[12], sizeof four);
            return four;
        }
    }
    return 0;
}

static int has_address(int fd)
{
    struct sockaddr_storage mine = {0};
    socklen_t size = sizeof mine;
    if (getsockname(fd, (struct sockaddr *)&mine, &size) != 0)
        return 1;
    if (mine.ss_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)&mine;
        return four->sin_addr.s_addr != INADDR_ANY || four->sin_port != 0;
    }
    if (mine.ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&mine;
        return !IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr) || six->sin6_port != 0;
    }
    return 1;
}

static void bind_to(int fd, int family, in_addr_t source)
{
    int on = 1;
    /* The port is chosen when connecting: no port is spent on an address alone. */
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (family == AF_INET) {
        struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = source};
        bind(fd, (struct sockaddr *)&four, sizeof four);
    } else {
        struct sockaddr_in6 six = {.sin6_family = AF_INET6};
        six.sin6_addr.s6_addr[10] = six.sin6_addr.s6_addr[11] = 0xff;
        memcpy(&six.sin6_addr.s6_addr[12], &source, sizeof source);
        bind(fd, (struct sockaddr *)&six, sizeof six);
    }
}

int connect(int fd, const struct sockaddr *addr, socklen_t size)
{
    const char *text = getenv("SOURCENIC");
    struct in_addr source;
    if (text && addr && inet_aton(text, &source)) {
        in_addr_t to = ipv4_of(addr, size);
        int inside = to != 0 && (ntohl(to) >> 16) == (ntohl(source.s_addr) >> 16);
        int kept = errno;
        if (inside && !has_address(fd))
            bind_to(fd, addr->sa_family, source.s_addr);
        errno = kept;
    }
    return (int)syscall(SYS_connect, fd, addr, size);
}
