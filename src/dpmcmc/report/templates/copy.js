for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const status = button.parentElement.querySelector("[role=status]");
    try {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      status.textContent = "copied";
    } catch {
      status.textContent = "could not copy; select the text instead";
    }
  });
}
