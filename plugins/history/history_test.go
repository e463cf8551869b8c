package history_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/history"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// An event of a log at a second.
func start(at float64) *ledger.Event {
	return &ledger.Event{Time: at, Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "fixed"}}
}

func node(at float64, name string, change ...func(*ledger.Machine)) *ledger.Event {
	m := &ledger.Machine{Capacity: map[string]int64{"cpu": 8, "pods": 9}, Cost: 1}
	for _, c := range change {
		c(m)
	}
	return &ledger.Event{Time: at, Kind: ledger.KindNode, Node: name, Machine: m}
}

func refusing(selectors ...string) func(*ledger.Machine) {
	return func(m *ledger.Machine) { m.Refuses = selectors }
}

func labelled(pool string) func(*ledger.Machine) {
	return func(m *ledger.Machine) { m.Labels = map[string]string{"karpenter.sh/nodepool": pool} }
}

func app(at float64, name, selector string) *ledger.Event {
	return &ledger.Event{Time: at, Kind: ledger.KindApp, App: name, Spec: &ledger.App{
		Group: name, Selector: selector, Demand: map[string]int64{"cpu": 1, "pods": 1},
	}}
}

func pod(at float64, kind ledger.Kind, name, app, node string) *ledger.Event {
	return &ledger.Event{Time: at, Kind: kind, Pod: name, UID: "uid-" + name, App: app, Node: node}
}

func forget(at float64, node string) *ledger.Event {
	return &ledger.Event{Time: at, Kind: ledger.KindForget, Node: node}
}

func expect(at float64, app string, n float64) *ledger.Event {
	return &ledger.Event{Time: at, Kind: ledger.KindForecast, Expected: map[string]float64{app: n}}
}

// write makes a file of events.
func write(tb testing.TB, events ...*ledger.Event) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "decisions.jsonl")
	var log *ledger.Log
	for _, e := range events {
		if e.Kind == ledger.KindStart { // each process numbers its own
			if log != nil {
				require.NoError(tb, log.Close())
			}
			var err error
			log, err = ledger.OpenLog(path)
			require.NoError(tb, err)
		}
		if e.Kind == ledger.KindDecide {
			e.Decision = &ledger.Decision{Cause: ledger.CauseSingle}
		}
		require.NoError(tb, log.Write(e))
	}
	require.NoError(tb, log.Close())
	return path
}

func at(tb testing.TB, text string) history.Time {
	tb.Helper()
	t, err := history.ParseTime(text)
	require.NoError(tb, err)
	return t
}

func read(tb testing.TB, path, from, until string) *trace.Trace {
	tb.Helper()
	h, err := history.Read([]string{path}, at(tb, from), at(tb, until))
	require.NoError(tb, err)
	t, _, err := h.Trace(history.Options{Name: "x", Method: "test"})
	require.NoError(tb, err)
	require.NoError(tb, t.Write(filepath.Join(tb.TempDir(), "trace")), "it can be written")
	return t
}

// lines are a trace's initial requests and events, one a line.
func lines(t *trace.Trace) string {
	var b strings.Builder
	for _, p := range t.Placed {
		b.WriteString("placed " + t.Requests[p.Request].Name + " " + t.Instance.Machines[p.Line].Name + "\n")
	}
	where, _ := t.Source["placements"].(map[string]any)
	for _, e := range t.Events {
		name := t.Requests[e.Request].Name
		b.WriteString(strconv.FormatFloat(e.Time, 'g', -1, 64) + " " + [...]string{"create", "delete"}[e.Kind] + " " + name)
		if node, ok := where[name]; ok && e.Kind == trace.Create {
			b.WriteString(" " + node.(string))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestHistories(t *testing.T) {
	const place, arrive, decide, failed, remove = ledger.KindPlace, ledger.KindArrive, ledger.KindDecide, ledger.KindFailed, ledger.KindRemove
	begin := []*ledger.Event{start(100), node(100, "a"), node(100, "b"), app(100, "web", "")}
	tests := []struct {
		name        string
		events      []*ledger.Event
		from, until string
		want        string
	}{
		{"what is found at first stood, what is found later came", []*ledger.Event{
			pod(100.2, place, "p1", "web", "a"), pod(101, place, "p2", "web", "a"),
		}, "", "", "placed p1 a\n1 create p2 a\n"},
		{"what is found after a decision came", []*ledger.Event{
			pod(100, decide, "p1", "web", "a"), pod(100.1, place, "p2", "web", "a"),
		}, "", "", "0 create p1 a\n0.1 create p2 a\n"},
		{"a pod that waits comes when it gets a node", []*ledger.Event{
			pod(101, arrive, "p", "web", ""), pod(150, decide, "p", "web", "a"), pod(160, remove, "p", "", ""),
		}, "", "", "50 create p a\n60 delete p\n"},
		{"a pod that never gets a node waits", []*ledger.Event{
			pod(101, arrive, "p", "web", ""), pod(160, remove, "p", "", ""),
		}, "", "", "1 create p\n60 delete p\n"},
		{"after a failed binding it waits again", []*ledger.Event{
			pod(101, decide, "p", "web", "a"), pod(102, failed, "p", "", ""), pod(109, remove, "p", "", ""),
		}, "", "", "1 create p a\n2 delete p\n2 create p#2\n9 delete p#2\n"},
		{"a wait of no length is none", []*ledger.Event{
			pod(101, decide, "p", "web", "a"), pod(102, failed, "p", "", ""), pod(102, remove, "p", "", ""),
		}, "", "", "1 create p a\n2 delete p\n"},
		{"a pod that comes and goes in one moment", []*ledger.Event{
			pod(101, decide, "p", "web", "a"), pod(101, remove, "p", "", ""),
		}, "", "", "1 create p a\n1 delete p\n"},
		{"what leaves makes room in its moment", []*ledger.Event{
			pod(101, decide, "p", "web", "a"), pod(105, place, "q", "web", "a"), pod(105.0004, remove, "p", "", ""),
		}, "", "", "1 create p a\n5 delete p\n5 create q a\n"},
		{"a node takes its pods with it", []*ledger.Event{
			pod(101, decide, "p", "web", "a"), forget(105, "a"), pod(106, remove, "p", "", ""),
		}, "", "", "1 create p a\n5 delete p\n"},
		{"a pod moves", []*ledger.Event{
			pod(101, place, "p", "web", "a"), pod(105, place, "p", "web", "b"),
		}, "", "", "1 create p a\n5 delete p\n5 create p#2 b\n"},
		{"a clock is set back", []*ledger.Event{
			pod(110, decide, "p", "web", "a"), pod(105, decide, "q", "web", "a"), pod(112, remove, "p", "", ""),
		}, "", "", "10 create p a\n10 create q a\n12 delete p\n"},
		{"a start: what is described again stood, the rest left", []*ledger.Event{
			pod(101, decide, "p", "web", "a"), pod(102, decide, "q", "web", "a"), start(150), node(160, "a"), app(160, "web", ""),
			pod(160, place, "q", "web", "a"), pod(170, remove, "q", "", ""),
		}, "", "", "1 create p a\n2 create q a\n50 delete p\n70 delete q\n"},
		{"a start after which nothing is described changes nothing", []*ledger.Event{
			pod(101, decide, "p", "web", "a"), start(150),
		}, "", "", "1 create p a\n"},
		{"a start, and the pod asks again: it had no node", []*ledger.Event{
			pod(101, decide, "p", "web", "a"), start(150), node(160, "a"), app(160, "web", ""), pod(161, arrive, "p", "web", ""), pod(170, decide, "p", "web", "a"),
		}, "", "", "1 create p a\n50 delete p\n70 create p#2 a\n"},
		{"a window begins with what stands", []*ledger.Event{
			pod(101, decide, "p", "web", "a"), pod(102, decide, "q", "web", "b"), pod(103, remove, "q", "", ""), pod(110, remove, "p", "", ""),
		}, "5s", "", "placed p a\n5 delete p\n"},
		{"a window ends before its end", []*ledger.Event{
			pod(101, decide, "p", "web", "a"), pod(110, remove, "p", "", ""),
		}, "", "10s", "1 create p a\n"},
		{"a pod that waits at the beginning of a window comes then", []*ledger.Event{
			pod(101, arrive, "p", "web", ""), pod(110, arrive, "q", "web", ""),
		}, "5s", "", "0 create p\n5 create q\n"},
		{"a start just before the end of a window", []*ledger.Event{
			pod(101, decide, "p", "web", "a"), start(109), node(109, "a"), app(111, "web", ""), pod(111, place, "p", "web", "a"),
		}, "", "10s", "1 create p a\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, append(slices.Clip(begin), tt.events...)...)
			require.Equal(t, tt.want, lines(read(t, path, tt.from, tt.until)))
		})
	}
}

// What is expected is the number at the beginning: a later one would show a policy
// what is to come.
// A share of an app is of the most that its workload declares at a time in the window, of however
// many sizes; where nothing is declared no share counts. The forecast stays that of the beginning.
func TestDeclaredIsTheMostOfTheWindow(t *testing.T) {
	counted := func(at float64, app string, n float64) *ledger.Event {
		e := expect(at, app, n)
		e.Undeclared = []string{app}
		return e
	}
	begin := start(100)
	begin.Start.MaxShareOfApp = .5
	resized := app(100, "web-2", "")
	resized.Spec.Group = "web"
	path := write(t, begin, node(100, "a"), app(100, "web", ""), resized, app(100, "bare", ""), app(100, "db", ""),
		expect(100, "web", 50), expect(110, "web", 2), expect(100, "db", 3), counted(110, "bare", 4),
		pod(200, ledger.KindDecide, "p", "web", "a"), counted(210, "bare", 9), expect(220, "web", 20),
		expect(230, "web", -1), expect(230, "web-2", 12))
	for from, want := range map[string]map[string][2]float64{
		"":    {"web": {50, 50}, "web-2": {12, -1}, "bare": {4, -1}, "db": {3, 0}},
		"50s": {"web": {2, 20}, "web-2": {12, -1}, "bare": {4, -1}, "db": {3, 0}},
	} {
		got := map[string][2]float64{}
		for _, a := range read(t, path, from, "").Instance.Apps {
			got[a.Name] = [2]float64{a.Expected, a.Declared}
		}
		require.Equal(t, want, got, from)
	}
}

func TestExpectedIsOfTheBeginning(t *testing.T) {
	path := write(t, start(100), node(100, "a"), app(100, "web", ""), expect(100, "web", 3), pod(101, ledger.KindDecide, "p", "web", "a"),
		expect(150, "web", 5), expect(160, "web", 9), app(170, "late", ""), expect(170, "late", 2), expect(180, "late", 4))
	expected := func(from string) map[string]float64 {
		m := map[string]float64{}
		for _, a := range read(t, path, from, "").Instance.Apps {
			m[a.Name] = a.Expected
		}
		return m
	}
	require.Equal(t, map[string]float64{"web": 3, "late": 2}, expected(""))
	require.Equal(t, map[string]float64{"web": 5, "late": 2}, expected("55s"))
	require.Equal(t, map[string]float64{"web": 9, "late": 2}, expected("75s"))
}

// A node that is gone takes pods that came later if nodes like it do.
func TestSelectorsAfterNodes(t *testing.T) {
	types := func(path string) map[string]string { // nodes by app
		tr := read(t, path, "", "")
		m := map[string]string{}
		for _, a := range tr.Instance.Apps {
			for _, n := range tr.Instance.Machines {
				if a.Types == nil {
					m[a.Name] += n.Name
				}
				for _, typ := range a.Types {
					if n.Type == typ {
						m[a.Name] += n.Name
					}
				}
			}
		}
		return m
	}
	log := func(labels ...func(*ledger.Machine)) []*ledger.Event {
		return []*ledger.Event{
			start(100), node(100, "a", labels[0]), node(100, "b", labels[1]), node(100, "c", labels[2], refusing("")), app(100, "web", ""),
			pod(101, ledger.KindPlace, "p", "web", "a"), forget(110, "a"),
			node(120, "c", labels[2], refusing("", "x")), app(120, "train", "x"), pod(120, ledger.KindPlace, "q", "train", "b"),
		}
	}
	spot, plain := labelled("spot"), labelled("plain")
	require.Equal(t, map[string]string{"web": "ab", "train": "ab"}, types(write(t, log(spot, spot, spot)...)), "b is like a, c is not")
	require.Equal(t, map[string]string{"web": "ab", "train": "b"}, types(write(t, log(spot, plain, spot)...)), "nothing is like a")
	// A selector that no app has any more is not spoken of, which is no admission.
	swept := append(log(spot, spot, spot), pod(130, ledger.KindRemove, "q", "", ""), &ledger.Event{Time: 130, Kind: ledger.KindForget, App: "train"},
		node(130, "c", spot, refusing("")))
	require.Equal(t, "ab", types(write(t, swept...))["train"])
}

func TestParseTime(t *testing.T) {
	for _, text := range []string{"", "0s", "36h", "1.5s", "2026-05-04T12:00:00Z", "2026-05-04T12:00:00.5+02:00"} {
		_, err := history.ParseTime(text)
		require.NoError(t, err, text)
	}
	for _, text := range []string{"-1s", "12", "2026-05-04", "noon"} {
		_, err := history.ParseTime(text)
		require.ErrorContains(t, err, text)
	}
}

// A log of many files is read as one, and one of version 1 as it was meant.
func TestSeveralFiles(t *testing.T) {
	text, err := os.ReadFile("../ledger/testdata/version1.jsonl")
	require.NoError(t, err)
	all := filepath.Join(t.TempDir(), "all.jsonl")
	require.NoError(t, os.WriteFile(all, text, 0o600))
	parts := strings.SplitAfter(string(text), "\n")
	first, second := all+".1", all+".2"
	require.NoError(t, os.WriteFile(first, []byte(strings.Join(parts[:60], "")), 0o600))
	require.NoError(t, os.WriteFile(second, []byte(strings.Join(parts[60:], "")), 0o600))
	h, err := history.Read([]string{first, second}, history.Time{}, history.Time{})
	require.NoError(t, err)
	got, _, err := h.Trace(history.Options{Name: "x", Method: "test"})
	require.NoError(t, err)
	whole := read(t, all, "", "")
	require.Equal(t, lines(whole), lines(got))
	require.Equal(t, whole.Instance, got.Instance)
	limits := 0
	for _, g := range got.Instance.Groups {
		limits += int(g.Limit)
	}
	require.Equal(t, 3, limits, "of web 2, of db 1")

	_, err = history.Read([]string{second}, history.Time{}, history.Time{})
	require.ErrorContains(t, err, second+":1: nothing started yet")
	_, err = history.Read([]string{first, all}, history.Time{}, at(t, "1h"))
	require.NoError(t, err, "a file that begins at the same time may follow")
}

// What is lost at a start that an earlier clock dates stays a moment after it came.
func TestLostWhereTheClockIsSetBack(t *testing.T) {
	tr := read(t, write(t, start(100), node(100, "a"), app(100, "web", ""), pod(110, ledger.KindDecide, "p", "web", "a"),
		start(105), node(105, "a"), app(105, "web", "")), "", "")
	require.Equal(t, "10 create p a\n10 delete p\n", lines(tr))
}

// A node that was gone before the window is no machine of it.
func TestNodesLostBeforeTheWindow(t *testing.T) {
	log := write(t, start(100), node(100, "a"), node(100, "b"), app(100, "web", ""), pod(110, ledger.KindPlace, "p", "web", "a"),
		start(200), node(200, "a"), app(200, "web", ""), pod(210, ledger.KindPlace, "p", "web", "a"), pod(230, ledger.KindPlace, "q", "web", "a"))
	names := func(from string) (list []string) {
		for _, m := range read(t, log, from, "").Instance.Machines {
			list = append(list, m.Name)
		}
		return list
	}
	require.Equal(t, []string{"a", "b"}, names("50s"), "it was there for a part of the window")
	require.Equal(t, []string{"a"}, names("120s"))
}

func TestUnusableLogs(t *testing.T) {
	larger := app(120, "web", "")
	larger.Spec.Demand = map[string]int64{"cpu": 7}
	log := write(t, start(100), app(100, "web", ""), larger)
	_, err := history.Read([]string{log}, history.Time{}, history.Time{})
	require.EqualError(t, err, log+":3: app: the demand of web changed, and its earlier pods would change with it")
	whole := write(t, start(100), node(100, "a"))
	_, err = history.Read([]string{whole, whole}, history.Time{}, history.Time{})
	require.EqualError(t, err, whole+": is given twice")
}

// A log with a resource that no trace can name is refused with the name.
func TestNoResource(t *testing.T) {
	path := write(t, start(100), node(100, "a"), app(100, "web", ""), pod(100, ledger.KindPlace, "p", "web", "a"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(text), `"cpu"`, `"a:b"`)), 0o600))
	h, err := history.Read([]string{path}, at(t, "0s"), at(t, "1h"))
	require.NoError(t, err)
	_, _, err = h.Trace(history.Options{Name: "x", Method: "test"})
	require.ErrorContains(t, err, `the log's resources: "a:b": space, quote, bracket, comma, colon or bar in a name`)
}

// FuzzTrace makes traces of anything that is read as a log: what can be made can be
// written and read back.
func FuzzTrace(f *testing.F) {
	text, err := os.ReadFile(write(f, start(100), node(100, "a"), node(100, "b", refusing("")), app(100, "web", ""),
		pod(100, ledger.KindPlace, "p", "web", "a"), pod(101, ledger.KindArrive, "q", "web", ""), pod(102, ledger.KindDecide, "q", "web", "a"),
		pod(103, ledger.KindFailed, "q", "", ""), forget(104, "a"), start(105), node(105, "b"), pod(106, ledger.KindDecide, "q", "web", "b")))
	require.NoError(f, err)
	f.Add(text, int64(0), int64(time.Hour))
	f.Add([]byte(strings.ReplaceAll(string(text), `"cpu"`, `":9}cpu"`)), int64(0), int64(time.Hour)) // no name of a resource
	f.Add(text, int64(2*time.Second), int64(5*time.Second))
	f.Fuzz(func(t *testing.T, text []byte, from, until int64) {
		path := filepath.Join(t.TempDir(), "log")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		h, err := history.Read([]string{path}, at(t, time.Duration(max(0, from)).String()), at(t, time.Duration(max(0, until)).String()))
		if err != nil {
			return
		}
		tr, _, err := h.Trace(history.Options{Name: "x", Method: "test"})
		if err != nil {
			return
		}
		require.NoError(t, tr.Write(filepath.Join(t.TempDir(), "trace")))
	})
}
