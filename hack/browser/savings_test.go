package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// The page of a bill fits a phone and two sheets of paper, in light and dark.
func TestSavings(t *testing.T) {
	sigma := os.Getenv("SIGMA")
	if sigma == "" {
		t.Skip("SIGMA names no binary: hack/browser/run.sh does that")
	}
	browser := start(t, chromium(t))
	file := filepath.Join(t.TempDir(), "savings.html")
	from := "../../docs/examples/messy.json.gz,../../docs/examples/messy.csv.gz"
	if out, err := exec.Command(sigma, "savings", "--quiet", "--from", from, "--report", file).CombinedOutput(); err != nil {
		t.Fatalf("sigma savings: %v\n%s", err, out)
	}
	for _, width := range []int64{1280, 390} {
		for _, scheme := range []string{"light", "dark", "print"} {
			t.Run(fmt.Sprintf("%d-%s", width, scheme), func(t *testing.T) {
				ctx, check := tab(t, browser)
				defer check()
				show(ctx, t, file, width, scheme)
				screenshot(ctx, t, fmt.Sprintf("savings-%d-%s.png", width, scheme), true)
				var wider, rows int
				err := chromedp.Run(ctx,
					chromedp.Evaluate(`document.documentElement.scrollWidth - window.innerWidth`, &wider),
					chromedp.Evaluate(`document.querySelectorAll("#steps tbody tr").length`, &rows))
				if err != nil {
					t.Fatal(err)
				}
				if rows != 7 {
					t.Errorf("%d rows, want five steps, the rest and the least", rows)
				}
				if scheme == "print" {
					paper(ctx, t, "savings")
				} else if wider > 0 {
					t.Errorf("the page is %d pixels wider than the window", wider)
				}
			})
		}
	}
}
