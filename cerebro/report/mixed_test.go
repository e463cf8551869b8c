package report

import (
	"io"
	"strings"
	"testing"

	"github.com/sigma-scheduler/sigma/cerebro"
)

// kinds are a cluster by request, of 39 machines, and by use, of 16 with a risk of 2 %.
func kinds() []Comparison {
	runs := func(machines int, over float64) (list []cerebro.Run) {
		for order := range 3 {
			list = append(list, cerebro.Run{
				Order: order, Machines: machines, Cost: float64(machines), Placed: 500,
				Use: &cerebro.Use{Until: 100, NodeSeconds: 100, ItemSeconds: 100, Dimensions: []cerebro.DimensionUse{{Judged: 100, Over: over, Covered: 100, Worst: 1.5}}},
			})
		}
		return list
	}
	trace := Trace{Name: "shop", Items: 500, Dimensions: []string{"cpu"}, Fleet: "open", Orders: 2}
	byRequest := Build(trace, Bound{Machines: 38, Cost: 38, Method: "volume"}, []PolicyRuns{{Policy: "bestfit", Knowledge: "K0", Runs: runs(39, 0)}})
	trace.Name, trace.ByUse, trace.Beside = "shop by use", true, true
	return []Comparison{byRequest, Build(trace, Bound{Machines: 16, Cost: 16, Method: "volume"}, []PolicyRuns{{Policy: "bestfit", Knowledge: "K0", Runs: runs(16, 2)}})}
}

func texts(t *testing.T, list []Comparison) map[string]string {
	return map[string]string{
		"table":    render(t, func(w io.Writer) error { return Table(w, list, Options{}) }),
		"markdown": render(t, func(w io.Writer) error { return Markdown(w, list, Options{}) }),
		"page":     render(t, Page(list, []string{"a", "b"}, nil).HTML),
	}
}

// Machines by request and by use have no mean: each trace has its table, and the saving its risk.
func TestNoMeanOverRequestAndUse(t *testing.T) {
	const saved = "By use bestfit needs 16 machines of 39, −59.0 %; cpu above capacity for 2.0000 % of the node-time (± 0.0000 over 2 orders), at worst 1.50 of it; "
	for name, text := range texts(t, kinds()) {
		for _, want := range []string{saved, "shop by use", "over cpu %", "bestfit needs 39 machines", "bestfit needs 16 machines"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", name, want, text)
			}
		}
		for _, wrong := range []string{"27.5", "means over", "ean over traces"} {
			if strings.Contains(text, wrong) {
				t.Errorf("%s has %q:\n%s", name, wrong, text)
			}
		}
	}
	other := kinds()
	other[1].Trace.Beside = false
	for name, text := range texts(t, other) {
		if strings.Contains(text, "59.0") || strings.Contains(text, "27.5") || !strings.Contains(text, "no mean is over both") {
			t.Errorf("%s of two clusters:\n%s", name, text)
		}
	}
	alike := kinds()[:1]
	if alike = append(alike, alike[0]); !strings.Contains(texts(t, alike)["table"], "means over 2 traces") {
		t.Error("traces of one kind have a mean")
	}
}

// The best policy of each kind is compared, and none where one of them leaves items out.
func TestSavingByUseOfTheBest(t *testing.T) {
	list := kinds()
	list[0].Results[0].Policy = "firstfit"
	if got, want := Summary(list), "By use bestfit needs 16 machines and firstfit by request 39, −59.0 %; cpu above"; !strings.HasPrefix(got, want) {
		t.Error(got)
	}
	list[0].Trace.Mixed, list[1].Trace.Mixed = true, true
	for i := range list[1].Results[0].Runs {
		list[1].Results[0].Runs[i].Cost = 40
	}
	if got, want := Summary(list), "firstfit by request 39, cost +2.6 %; cpu above"; !strings.Contains(got, want) {
		t.Error(got)
	}
	list[1].Trace.Deletes = true
	if got, want := Summary(list), "needs 0 machines and firstfit by request 39 at the peak, cost "; !strings.Contains(got, want) {
		t.Error(got)
	}
	list[1].Trace.Deletes = false
	list[0].Results[0].Runs[2].Unplaced = 1
	if got := Summary(list); !strings.Contains(got, "no mean is over both") {
		t.Error(got)
	}
}

// Sizes by use are counted, not requested.
func TestPictureByUse(t *testing.T) {
	c := drawnSmall(20, 18)
	for byUse, want := range map[bool][]string{
		false: {"of their cpu requested", "Heights are requested shares", " % are requested, ", "items of "},
		true:  {"of their cpu counted", "Heights are counted shares", " % are counted, ", "items counted at ", ": counted at "},
	} {
		c.Trace.ByUse = byUse
		page := render(t, Page([]Comparison{c}, nil, nil).HTML)
		for _, w := range want {
			if !strings.Contains(page, w) {
				t.Errorf("by use %v: no %q", byUse, w)
			}
		}
		if strings.Contains(page, "requested") == byUse {
			t.Errorf("by use %v: requested", byUse)
		}
	}
}
