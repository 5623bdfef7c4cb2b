/* What scrolls can be reached with the keyboard, a formula wider than the screen scrolls, and paper gets the light colours. */
(() => {
  const scrollers = "pre, div.math, .pst-scrollable-table-container, .output.text_html";

  function fit() {
    const wide = (box) => box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
    for (const formula of document.querySelectorAll("mjx-container:not([display])")) {
      const line = formula.closest("p, li, td, th, dd") ?? formula.parentElement;
      formula.classList.remove("lm-too-wide");
      formula.classList.toggle("lm-too-wide", formula.offsetWidth > line.clientWidth && line.clientWidth > 0);
    }
    for (const box of document.querySelectorAll(scrollers)) {
      if (wide(box)) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }

  function watch() {
    const article = document.querySelector(".bd-article");
    if (!article) return;
    new ResizeObserver(fit).observe(article);
    window.MathJax?.startup?.promise?.then(fit);
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
