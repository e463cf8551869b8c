package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// simulated is what a script finds in the page of a simulation.
type simulated struct {
	Summary  string
	Rows     int // of the table
	Plots    int
	Untitled int
	Dots     int
	Lines    int // that are drawn
	Flat     int // plots of lines, in parts that are open, that nothing is drawn in
	Open     int // agents whose plots are seen
	Wider    int
	Small    float64
	Paper    string // colour of the page
	Covered  int    // names of dots that cover each other
	Over     int    // cells over the promise
	Tinted   int    // of them, those that look so
	Marks    int
	Bands    int
	Object   string // to copy
	Offered  int    // controls that are seen
}

const lookSimulated = `(() => {
  const count = (s) => document.querySelectorAll(s).length;
  const images = [...document.querySelectorAll('svg[role="img"]')];
  const named = (s) => (s.getAttribute("aria-labelledby") || "").split(" ").every((id) => document.getElementById(id)?.textContent);
  const seen = images.filter((s) => s.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true}));
  const names = [...document.querySelectorAll("svg .name")].map((n) => n.getBoundingClientRect());
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  return {
    Summary: document.querySelector(".summary").textContent,
    Rows: count("table tbody th"),
    Plots: images.filter(named).length,
    Untitled: images.filter((s) => !named(s)).length,
    Dots: count(".dot"),
    Lines: count("svg[role='img'] .line"),
    Flat: seen.filter((s) => !s.querySelector(".dot, .lane") && ![...s.querySelectorAll(".line")].some((l) => l.getBBox().width > 100)).length,
    Open: count("details[open]"),
    Wider: document.documentElement.scrollWidth - window.innerWidth,
    Small: Math.min(...seen.flatMap((s) => [...s.querySelectorAll("text")]
      .map((t) => parseFloat(getComputedStyle(t).fontSize) * s.getScreenCTM().a))),
    Paper: getComputedStyle(document.body).backgroundColor,
    Over: count("td.over"),
    Tinted: [...document.querySelectorAll("td.over")].filter((c) => getComputedStyle(c).color !== getComputedStyle(document.body).color).length,
    Marks: count("figure svg[role='img'] .mark"),
    Bands: count("svg .band"),
    Object: document.querySelector(".copy pre")?.textContent ?? "",
    Offered: [...document.querySelectorAll(".time input, .copy button")].filter((e) => e.getClientRects().length).length,
    Covered: names.filter((a, i) => names.slice(i + 1).some((b) => meet(a, b))).length,
  };
})()`

// hoverSimulation points at the middle of the plot of cores and says what all plots answer; then
// the slider.
const hoverSimulation = `(() => {
  const svg = document.getElementById("all-cores-title").parentNode;
  const plots = [...document.querySelectorAll("figure svg .cursor")].map((c) => c.ownerSVGElement);
  const p = new DOMPoint(339, 150).matrixTransform(svg.getScreenCTM()); // half of the way from 52 to 626
  svg.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: p.x, clientY: p.y}));
  const read = (id) => document.getElementById(id + "-title").parentNode.nextElementSibling.textContent;
  const shown = plots.filter((s) => Math.abs(s.querySelector(".cursor").x1.baseVal.value - 339) < 1 && s.querySelector(".cursor").getAttribute("visibility") === "visible").length;
  const said = {Plots: plots.length, Shown: shown, Rate: read("all-rate"), Cores: read("all-cores"), Over: read("all-over")};
  const slider = document.querySelector(".time input");
  said.Middle = +slider.value;
  slider.value = 1000;
  slider.dispatchEvent(new Event("input"));
  said.Slid = read("all-rate");
  document.querySelector(".copy button").click();
  said.Copied = getSelection().toString();
  return said;
})()`

func TestSimulation(t *testing.T) {
	sigma := os.Getenv("SIGMA")
	if sigma == "" {
		t.Skip("SIGMA names no binary: hack/browser/run.sh does that")
	}
	browser := start(t, chromium(t))
	file := filepath.Join(t.TempDir(), "simulation.html")
	args := []string{
		"mpa", "simulate", "--trace", "synthetic:diurnal", "--set", "period=2", "--set", "peak=1", "--set", "high=120",
		"--app", "../../docs/examples/autoscaling/web.yaml", "--hours", "2.5", "--warmup", "0.5", "--seeds", "2",
		"--agents", "static,hpa,hpa-50,hpa-rps,hpa+vpa,autopilot,oracle", "--report", file,
	}
	if out, err := exec.Command(sigma, args...).CombinedOutput(); err != nil {
		t.Fatalf("sigma %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 500e3 {
		t.Errorf("%d bytes, want at most 500,000", info.Size())
	}
	t.Run("copy", func(t *testing.T) {
		ctx, check := tab(t, browser)
		defer check()
		show(ctx, t, file, 1280, "light")
		var said string
		click := chromedp.ActionFunc(func(ctx context.Context) error { // as a person does: a script may not copy
			var at []float64
			if err := chromedp.Evaluate(`(() => {
				const button = document.querySelector(".copy button");
				button.scrollIntoView({block: "center"});
				const r = button.getBoundingClientRect();
				return [r.x + r.width / 2, r.y + r.height / 2];
			})()`, &at).Do(ctx); err != nil {
				return err
			}
			return chromedp.MouseClickXY(at[0], at[1]).Do(ctx)
		})
		if err := chromedp.Run(ctx, click, chromedp.Evaluate(`document.querySelector(".copy button").textContent`, &said)); err != nil || said != "Copied" {
			t.Errorf("the button says %q after a click (%v)", said, err)
		}
	})
	t.Run("no-script", func(t *testing.T) { withoutScript(t, browser, file) })
	for _, width := range []int64{1280, 390} {
		for _, scheme := range []string{"light", "dark", "print"} {
			name := fmt.Sprintf("simulation-%d-%s", width, scheme)
			t.Run(name, func(t *testing.T) { visitSimulation(t, browser, file, name, width, scheme) })
		}
	}
}

func visitSimulation(t *testing.T, browser context.Context, file, name string, width int64, scheme string) {
	ctx, check := tab(t, browser)
	defer check()
	show(ctx, t, file, width, scheme)
	var s simulated
	if err := chromedp.Run(ctx, chromedp.Evaluate(lookSimulated, &s)); err != nil {
		t.Fatal(err)
	}
	screenshot(ctx, t, name+".png", true)
	t.Logf("%+v", s)
	var h struct {
		Plots, Shown, Middle            int
		Rate, Cores, Over, Slid, Copied string
	}
	if err := chromedp.Run(ctx, chromedp.Evaluate(hoverSimulation, &h)); err != nil {
		t.Fatal(err)
	}
	screenshot(ctx, t, name+"-hover.png", true)
	t.Logf("%+v", h)
	if scheme == "print" {
		paper(ctx, t, name)
	}
	if h.Plots != 5+4*7 || h.Shown != h.Plots || h.Middle < 495 || h.Middle > 505 {
		t.Errorf("the pointer shows a cursor on %d of %d plots, and the slider is at %d", h.Shown, h.Plots, h.Middle)
	}
	if !strings.HasPrefix(h.Rate, "minute 59.") || !strings.HasPrefix(h.Slid, "minute 119:") {
		t.Errorf("the pointer is at %q, and the slider's end at %q", h.Rate, h.Slid)
	}
	if !strings.Contains(h.Cores, "hpa+vpa ") || !strings.Contains(h.Cores, "oracle ") || !strings.Contains(h.Over, "over the promise: ") {
		t.Errorf("the plots say %q and %q", h.Cores, h.Over)
	}
	if !strings.HasPrefix(s.Object, "apiVersion: autoscaling.sigma-scheduler.io/v1alpha1\n") || strings.TrimSpace(h.Copied) != strings.TrimSpace(s.Object) {
		t.Errorf("the object %q, copied %q", s.Object, h.Copied)
	}
	// In print there is nothing to press.
	if want := map[string]int{"light": 2, "dark": 2}[scheme]; s.Offered != want {
		t.Errorf("%d controls, want %d", s.Offered, want)
	}
	if s.Over == 0 || s.Tinted != s.Over || s.Marks < 10 || s.Bands < 4 {
		t.Errorf("%d cells over the promise, %d coloured, %d marks, %d bands", s.Over, s.Tinted, s.Marks, s.Bands)
	}
	if !strings.Contains(s.Summary, "hpa+vpa costs") || !strings.Contains(s.Summary, "oracle") {
		t.Errorf("summary %q", s.Summary)
	}
	// A scatter plot, five of all agents, four of each of seven.
	if s.Rows != 7 || s.Plots != 1+5+4*7 || s.Untitled > 0 {
		t.Errorf("%d rows, %d plots with a title, %d without", s.Rows, s.Plots, s.Untitled)
	}
	if s.Dots < 5 || s.Dots > 7 || s.Lines < 4*7*2 || s.Flat > 0 || s.Open < 2 {
		t.Errorf("%d dots, %d lines, %d plots without one, %d agents open", s.Dots, s.Lines, s.Flat, s.Open)
	}
	if want := map[string]string{"light": "rgb(255, 255, 255)", "print": "rgb(255, 255, 255)", "dark": "rgb(18, 22, 28)"}[scheme]; s.Paper != want {
		t.Errorf("the page is %s, want %s", s.Paper, want)
	}
	if s.Covered > 0 {
		t.Errorf("%d names cover each other", s.Covered)
	}
	if scheme != "print" && (s.Wider > 0 || s.Small < 10) {
		t.Errorf("%d pixels wider than the window, letters of %.1f pixels", s.Wider, s.Small)
	}
}
