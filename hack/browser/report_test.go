package browser

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// A kind is a report as a user makes it, and what it must show.
type kind struct {
	name     string
	generate []string
	compare  []string
	traces   int
	columns  [2]int // of the two pictures: at least, at most
	marks    int    // items drawn; 0 = not known beforehand
	largest  int    // bytes
	recorded bool   // where pods stood is in the trace
}

var kinds = []kind{
	{"small", []string{"small"}, []string{"--policy", "firstfit,bestfit,worstfit,learned", "--orders", "10"}, 1, [2]int{15, 25}, 2 * 224, 200e3, false},
	{"large", []string{"large"}, []string{"--policy", "bestfit,learned", "--orders", "1"}, 1, [2]int{260, 320}, 0, 1.5e6, false},
	{"fixed", []string{"fixed"}, []string{"--policy", "bestfit,learned", "--orders", "1"}, 1, [2]int{260, 320}, 0, 1.5e6, false},
	{"churn", []string{"churn", "--set", "scale=.3"}, []string{"--policy", "bestfit,learned"}, 1, [2]int{50, 200}, 0, 1.5e6, false},
	{"kubernetes", []string{"kubernetes", "--set", "nodes=20"}, []string{"--policy", "bestfit,mostallocated,learned"}, 1, [2]int{10, 40}, 0, 1.5e6, false},
	{"day", []string{"kubernetes", "--set", "nodes=20", "--set", "zones=3"}, []string{"--policy", "current,bestfit,mostallocated,learned"}, 1, [2]int{10, 40}, 0, 1.5e6, true},
	{"folder", []string{"small", "--count", "40"}, []string{"--policy", "firstfit,bestfit,learned", "--orders", "3"}, 40, [2]int{15, 25}, 0, 1.5e6, false},
}

// recorded makes a generated trace a day of a cluster: where Worst-Fit placed its pods is where they stood, and costs are money.
func recorded(t *testing.T, sigma, dir string) {
	t.Helper()
	placements := filepath.Join(filepath.Dir(dir), "placements.csv")
	if out, err := exec.Command(sigma, "replay", "--trace", dir, "--policy", "worstfit", "--placements", placements).CombinedOutput(); err != nil {
		t.Fatalf("sigma replay: %v\n%s", err, out)
	}
	file, err := os.Open(placements)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // it is read
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("name: day\ndimensions: [cpu, memory]\nfleet: open\nmeasureFrom: 86400\nsource:\n  origin: Kubernetes cluster\n  currency: EUR\n  placements:\n")
	for _, r := range rows[1:] {
		if r[6] == "place" {
			fmt.Fprintf(&text, "    %s: %s\n", r[1], r[4])
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "trace.yaml"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// seen is what a script finds in the rendered page.
type seen struct {
	Summary  string
	Cards    int   // that are shown
	Tables   int   // of results
	Asides   int   // tables of savings and of risk
	Lead     bool  // machines over time come first, with their bound
	Plots    int   // pictures with a title and a description
	Untitled int   // those without
	Columns  []int // rows of the table below each picture of machines
	Free     []int // columns in the picture itself
	Marks    int   // items drawn
	Dots     int
	Lines    int
	Wider    int // pixels that the page is wider than the window
	Small    float64
}

const look = `(() => {
  const count = (s) => document.querySelectorAll(s).length;
  const parts = (p) => (p.getAttribute("d").match(/z/g) || []).length;
  const images = [...document.querySelectorAll('svg[role="img"]')];
  const named = (s) => (s.getAttribute("aria-labelledby") || "").split(" ").every((id) => document.getElementById(id)?.textContent);
  return {
    Summary: document.querySelector(".summary").textContent,
    Cards: [...document.querySelectorAll(".cards li")].filter((c) => c.getClientRects().length).length,
    Tables: [...document.querySelectorAll("table caption")].filter((c) => !c.closest(".aside, .machines")).length,
    Asides: count(".aside table"),
    Lead: count(".lead .limit") > 0,
    Plots: images.filter(named).length,
    Untitled: images.filter((s) => !named(s)).length,
    Columns: [...document.querySelectorAll(".machines")].map((f) => f.querySelectorAll("tbody tr").length),
    Free: [...document.querySelectorAll(".fleet .free")].map(parts),
    Marks: [...document.querySelectorAll(".fleet .app")].map(parts).reduce((a, b) => a + b, 0),
    Dots: count(".dot"),
    Lines: count("svg[role='img'] .line"),
    Wider: document.documentElement.scrollWidth - window.innerWidth,
    // The smallest letters that are drawn, in pixels of the screen.
    Small: Math.min(...images.flatMap((s) => [...s.querySelectorAll("text")]
      .filter((t) => t.getClientRects().length)
      .map((t) => parseFloat(getComputedStyle(t).fontSize) * s.getScreenCTM().a))),
  };
})()`

// hover points at the first item of the first picture and says what the page
// answers; then the slider, as keys and fingers move it.
const hover = `(() => {
  const fleet = document.querySelector(".fleet"), detail = fleet.querySelector(".detail");
  const svg = fleet.querySelector("svg"), item = svg.querySelector(".app");
  const at = (x, y) => new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
  const move = item.getAttribute("d").match(/^M([\d.]+) ([\d.]+)/);
  const p = at(+move[1] + .5, +move[2] + .5);
  const options = {bubbles: true, clientX: p.x, clientY: p.y};
  item.dispatchEvent(new PointerEvent("pointermove", options));
  const lit = document.querySelectorAll(".app.lit").length;
  const pointed = detail.textContent;
  const slider = fleet.querySelector("input");
  slider.value = 2;
  slider.dispatchEvent(new Event("input"));
  return {Pointed: pointed, Lit: lit, Slid: detail.textContent, Second: document.querySelectorAll(".machines tbody th")[1].textContent};
})()`

func TestReports(t *testing.T) {
	sigma := os.Getenv("SIGMA")
	if sigma == "" {
		t.Skip("SIGMA names no binary: hack/browser/run.sh does that")
	}
	browser := start(t, chromium(t))
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			file := k.write(t, sigma)
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes", info.Size())
			if info.Size() > int64(k.largest) {
				t.Errorf("%d bytes, want at most %d", info.Size(), k.largest)
			}
			for _, width := range []int64{1280, 390} {
				for _, scheme := range []string{"light", "dark", "print"} {
					t.Run(fmt.Sprintf("%d-%s", width, scheme), func(t *testing.T) {
						visit(t, browser, file, k, width, scheme)
					})
				}
			}
			t.Run("no-script", func(t *testing.T) { withoutScript(t, browser, file) })
		})
	}
}

// chromium finds the browser, or skips.
func chromium(t *testing.T) string {
	t.Helper()
	if name := os.Getenv("SIGMA_BROWSER"); name != "" {
		return name
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium here; SIGMA_BROWSER can name one")
	return ""
}

// write makes a trace, or a folder of them, and its report.
func (k *kind) write(t *testing.T, sigma string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "report.html")
	traces := filepath.Join(dir, "traces")
	run := func(args ...string) {
		if out, err := exec.Command(sigma, args...).CombinedOutput(); err != nil {
			t.Fatalf("sigma %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run(append(append([]string{"generate"}, k.generate...), "--seed", "900000", "--out", traces)...)
	if k.recorded {
		recorded(t, sigma, traces)
	}
	run(append([]string{"compare", "--trace", traces, "--report", file}, k.compare...)...)
	return file
}

// start runs the browser on a profile of its own.
func start(t *testing.T, path string) context.Context {
	t.Helper()
	profile, err := os.MkdirTemp("", "sigma-browser-") //nolint:usetesting // a straggler of the browser may still write to it
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(profile),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the browser; a crash shows in the tests
		cancel()
		stop()
		_ = os.RemoveAll(profile)
	})
	if err := chromedp.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// visit opens the page in a tab of its own and checks what it shows.
func visit(t *testing.T, browser context.Context, file string, k kind, width int64, scheme string) {
	ctx, check := tab(t, browser)
	defer check()
	var found seen
	var answer struct {
		Pointed, Slid, Second string
		Lit                   int
	}
	show(ctx, t, file, width, scheme)
	if err := chromedp.Run(ctx, chromedp.Evaluate(look, &found)); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("%s-%d-%s", k.name, width, scheme)
	screenshot(ctx, t, name+".png", true)
	if err := chromedp.Run(ctx, chromedp.Evaluate(hover, &answer)); err != nil {
		t.Fatal(err)
	}
	screenshot(ctx, t, name+"-slider.png", false)
	t.Logf("%+v", found)
	t.Logf("%+v", answer)
	if scheme == "print" {
		paper(ctx, t, name)
	}
	k.check(t, found, width, scheme)
	if answer.Lit == 0 || !strings.Contains(answer.Pointed, "items of") || !strings.Contains(answer.Pointed, "holds") {
		t.Errorf("pointing at an item lights %d paths and says %q", answer.Lit, answer.Pointed)
	}
	if !strings.Contains(answer.Slid, "machine "+answer.Second) {
		t.Errorf("the slider at 2 says %q, want machine %s", answer.Slid, answer.Second)
	}
}

// paper checks that the page takes two sheets of A4 at most.
func paper(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	var pdf []byte
	err := chromedp.Run(ctx, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		pdf, _, err = page.PrintToPDF().WithPrintBackground(true).WithPaperWidth(8.27).WithPaperHeight(11.69).Do(ctx)
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	sheets := len(sheet.FindAll(pdf, -1))
	t.Logf("%s: %d sheets of paper", name, sheets)
	if sheets < 1 || sheets > 2 {
		t.Errorf("%d sheets of paper, want at most two", sheets)
	}
}

// sheet is a page in a PDF.
var sheet = regexp.MustCompile(`/Type\s*/Page\b`)

// tab opens a tab of its own. check closes it, and fails if the page said anything on the
// console or asked for more than itself.
func tab(t *testing.T, browser context.Context) (ctx context.Context, check func()) {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(browser)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	var complaints, requests []string
	chromedp.ListenTarget(ctx, func(event any) {
		switch event := event.(type) {
		case *runtime.EventConsoleAPICalled:
			complaints = append(complaints, string(event.Type))
		case *runtime.EventExceptionThrown:
			complaints = append(complaints, event.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			complaints = append(complaints, event.Entry.Text)
		case *network.EventRequestWillBeSent:
			requests = append(requests, event.Request.URL)
		}
	})
	return ctx, func() {
		t.Helper()
		cancel()
		closeTab()
		if len(complaints) > 0 {
			t.Errorf("the console says %q", complaints)
		}
		if len(requests) != 1 || !strings.HasPrefix(requests[0], "file://") {
			t.Errorf("requests %q, want the page alone", requests)
		}
	}
}

// show loads a page as a screen of a width, or paper, shows it.
func show(ctx context.Context, t *testing.T, file string, width int64, scheme string) {
	t.Helper()
	media := emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})
	if scheme == "print" {
		media = emulation.SetEmulatedMedia().WithMedia("print")
	}
	err := chromedp.Run(ctx,
		network.Enable(), log.Enable(),
		emulation.SetDeviceMetricsOverride(width, 900, 1, width < 500),
		media,
		chromedp.Navigate("file://"+file),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// withoutScript checks that the page offers nothing that needs its script, and
// that the browser itself names what is under the pointer.
func withoutScript(t *testing.T, browser context.Context, file string) {
	ctx, cancel := chromedp.NewContext(browser)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var offered, unnamed int
	err := chromedp.Run(ctx,
		emulation.SetScriptExecutionDisabled(true),
		chromedp.Navigate("file://"+file),
		chromedp.Evaluate(`[...document.querySelectorAll(".fleet input, .detail, .time input, .copy button")].filter((e) => e.getClientRects().length).length`, &offered),
		chromedp.Evaluate(`[...document.querySelectorAll(".fleet .app")].filter((p) => !p.querySelector("title")?.textContent).length`, &unnamed),
	)
	if err != nil {
		t.Fatal(err)
	}
	if offered > 0 || unnamed > 0 {
		t.Errorf("%d controls that do nothing, %d apps without a title", offered, unnamed)
	}
}

func (k *kind) check(t *testing.T, s seen, width int64, scheme string) {
	t.Helper()
	tables := k.traces
	if tables > 1 {
		tables++
	}
	if s.Tables != tables {
		t.Errorf("%d tables of results, want %d", s.Tables, tables)
	}
	// A fixed fleet leaves items out: there is no verdict on costs, but the summary.
	verdict := strings.HasPrefix(s.Summary, "learned ") && strings.Contains(s.Summary, "the best rule that is free")
	if !verdict && !strings.HasPrefix(s.Summary, "bestfit leaves out ") {
		t.Errorf("summary %q", s.Summary)
	}
	if wantCards := width < 600 && scheme != "print"; wantCards && s.Cards == 0 || width >= 600 && s.Cards > 0 {
		t.Errorf("%d cards are shown at a width of %d", s.Cards, width)
	}
	over := k.name == "churn" || strings.HasPrefix(k.generate[0], "kubernetes")
	if s.Asides == 0 || s.Lead != over {
		t.Errorf("%d tables of savings and risk; machines over time come first: %t", s.Asides, s.Lead)
	}
	if k.recorded && !strings.Contains(s.Summary, "than the present placement") {
		t.Errorf("summary %q", s.Summary)
	}
	if s.Untitled > 0 || s.Plots < 2+3*k.traces {
		t.Errorf("%d plots with a title, %d without; want at least %d and 0", s.Plots, s.Untitled, 2+3*k.traces)
	}
	if len(s.Columns) != 2 || len(s.Free) != 2 {
		t.Fatalf("pictures of %v machines, want two", s.Columns)
	}
	for i, n := range s.Columns {
		if n < k.columns[0] || n > k.columns[1] || s.Free[i] != n {
			t.Errorf("picture %d has %d columns and %d rows, want the same, %v", i+1, s.Free[i], n, k.columns)
		}
	}
	if s.Marks < 4*s.Columns[0] || k.marks > 0 && s.Marks != k.marks {
		t.Errorf("%d items on %v machines, want %d", s.Marks, s.Columns, k.marks)
	}
	if s.Dots < 2*k.traces || s.Lines < 4*k.traces {
		t.Errorf("%d dots and %d lines for %d traces", s.Dots, s.Lines, k.traces)
	}
	if s.Wider > 0 && scheme != "print" {
		t.Errorf("the page is %d pixels wider than the window", s.Wider)
	}
	if s.Small < 10 && scheme != "print" {
		t.Errorf("letters of %.1f pixels in a plot", s.Small)
	}
}

// screenshot writes the whole page, or the window, where SIGMA_SCREENSHOTS says.
func screenshot(ctx context.Context, t *testing.T, name string, whole bool) {
	dir := os.Getenv("SIGMA_SCREENSHOTS")
	if dir == "" {
		return
	}
	var png []byte
	err := chromedp.Run(ctx, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		png, err = page.CaptureScreenshot().WithCaptureBeyondViewport(whole).Do(ctx)
		return err
	}))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), png, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
