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
    Flat: seen.filter((s) => !s.querySelector(".dot") && ![...s.querySelectorAll(".line")].some((l) => l.getBBox().width > 100)).length,
    Open: count("details[open]"),
    Wider: document.documentElement.scrollWidth - window.innerWidth,
    Small: Math.min(...seen.flatMap((s) => [...s.querySelectorAll("text")]
      .map((t) => parseFloat(getComputedStyle(t).fontSize) * s.getScreenCTM().a))),
    Paper: getComputedStyle(document.body).backgroundColor,
    Covered: names.filter((a, i) => names.slice(i + 1).some((b) => meet(a, b))).length,
  };
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
	if !strings.Contains(s.Summary, "hpa+vpa costs") || !strings.Contains(s.Summary, "oracle") {
		t.Errorf("summary %q", s.Summary)
	}
	// A scatter plot, four of all agents, four of each of seven.
	if s.Rows != 7 || s.Plots != 1+4+4*7 || s.Untitled > 0 {
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
