"use strict";
// Parts marked data-live are renewed every few seconds; the page works without this.
const renew = async () => {
  if (document.hidden || !document.querySelector("[data-live]")) return;
  const answer = await fetch(location.href, { cache: "no-store" });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(part.id);
    if (other && other.innerHTML !== part.innerHTML && !part.contains(document.activeElement))
      part.replaceChildren(...document.adoptNode(other).childNodes);
  }
};
setInterval(() => renew().catch(() => {}), 3000);
