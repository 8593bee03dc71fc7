(() => {
  const said = document.getElementById("served-said");
  const stop = document.getElementById("served-stop");
  const kept = "clusterlab:" + location.pathname;
  const remember = (name, value) => { try { sessionStorage.setItem(kept + name, value); } catch { /* refused */ } };
  const recall = (name) => { try { return sessionStorage.getItem(kept + name); } catch { return null; } };
  const details = () => [...document.querySelectorAll("details")];

  // What the reader had opened stays so when the page is loaded again.
  const opened = recall("open");
  if (opened !== null) {
    const states = opened.split(",");
    details().forEach((one, i) => { if (i < states.length) one.open = states[i] === "1"; });
  }
  let stopped = recall("stopped") === "1";
  let news = false;

  const busy = () => {
    const chosen = getSelection();
    const selecting = chosen !== null && !chosen.isCollapsed;
    return document.hidden || selecting || document.querySelector("input:checked") !== null;
  };
  const show = () => {
    stop.textContent = stopped ? "Go on updating" : "Stop updates";
    if (news && !stopped && !busy()) {
      remember("open", details().map((one) => (one.open ? "1" : "0")).join(","));
      location.reload();
    }
  };
  stop.hidden = false;
  stop.addEventListener("click", () => {
    stopped = !stopped;
    remember("stopped", stopped ? "1" : "0");
    show();
  });
  document.addEventListener("visibilitychange", show);

  const source = new EventSource("events");
  source.onmessage = (event) => {
    const told = JSON.parse(event.data);
    if (told.said) said.textContent = told.said;
    if (told.stamp && told.stamp !== said.dataset.stamp) news = true;
    if (told.over) source.close();
    show();
  };
  setInterval(show, 1000);
})();
