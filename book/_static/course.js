/* What scrolls can be reached with the keyboard, long tables can be read on phones, paper gets the light colours. */
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

  // As blocks (course.css) rows would no longer be rows to a screen reader, nor show what their cells mean.
  function label() {
    for (const table of document.querySelectorAll(":is(.ledger, .lm-symbols) table, table.theorem-table")) {
      table.classList.add("lm-rows");
      table.role = "table";
      const heads = [...table.tHead.rows[0].cells];
      for (const head of heads) head.role = "columnheader";
      for (const part of [table.tHead, ...table.tBodies]) part.role = "rowgroup";
      for (const row of table.rows) row.role = "row";
      for (const row of table.tBodies[0].rows)
        for (const [i, cell] of [...row.cells].entries())
          Object.assign(cell, { role: "cell" }).dataset.label = heads[i].textContent.trim();
    }
  }

  // The button that says download downloads, also what the browser could show. From a page that was opened
  // as a file the browser does not allow it: there the button says what to do.
  function offer() {
    for (const link of document.querySelectorAll(".btn-download-source-button")) {
      if (location.protocol !== "file:") link.download = "";
      else link.dataset.bsOriginalTitle = "Open the source file, then save it from there"; // the theme's tooltip
    }
  }
  document.addEventListener("DOMContentLoaded", () => [label, offer].forEach((prepare) => prepare()));

  const paper = window.matchMedia("print");
  let onScreen = null;
  paper.addEventListener("change", () => {
    const page = document.documentElement.dataset;
    if (paper.matches) [onScreen, page.theme] = [page.theme, "light"];
    else if (onScreen) page.theme = onScreen;
  });
})();
