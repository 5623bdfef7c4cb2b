/* What scrolls can be reached with the keyboard, and paper gets the light colours. */
(() => {
  const scrollers = "pre, .pst-scrollable-table-container, .output.text_html";

  function fit() {
    const wide = (box) => box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
    for (const box of document.querySelectorAll(scrollers)) {
      if (wide(box)) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }

  function watch() {
    const article = document.querySelector(".bd-article");
    if (!article) return;
    new ResizeObserver(fit).observe(article);
  }
  window.addEventListener("load", watch);

  const paper = window.matchMedia("print");
  let onScreen = null;
  paper.addEventListener("change", () => {
    const page = document.documentElement.dataset;
    if (paper.matches) [onScreen, page.theme] = [page.theme, "light"];
    else if (onScreen) page.theme = onScreen;
  });
})();
