package ledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Whatever the lists are and in whatever order: a reader has them as they were, and a
// file has at most the shorter of list and change.
func TestListsAreReadAsTheyWere(t *testing.T) {
	d := seeded(21)
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	log, err := ledger.OpenLog(path)
	require.NoError(t, err)
	var want [][]string
	lists := map[string][]string{}
	start := &ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "open"}}
	require.NoError(t, log.Write(start))
	for i := range 400 {
		app := fmt.Sprint("app", d.IntN(3))
		switch d.IntN(20) {
		case 0:
			again := *start
			require.NoError(t, log.Write(&again))
		case 1:
			require.NoError(t, log.Write(&ledger.Event{Kind: ledger.KindForget, App: app}))
		case 2:
			lists[app] = nil
		case 3: // all others
			lists[app] = nil
			for n := range 60 {
				lists[app] = append(lists[app], fmt.Sprint("n", (n*37+i)%120))
			}
		}
		for range d.IntN(5) {
			if name := fmt.Sprint("n", d.IntN(120)); !slices.Contains(lists[app], name) {
				lists[app] = append(slices.Clone(lists[app]), name)
			} else {
				lists[app] = slices.DeleteFunc(slices.Clone(lists[app]), func(other string) bool { return other == name })
			}
		}
		if d.IntN(4) == 0 { // a new app, with almost the list of another
			of := app
			app = fmt.Sprint("new", i)
			lists[app] = append(slices.Clone(lists[of]), fmt.Sprint("m", i))
		}
		e := &ledger.Event{Kind: ledger.KindDecide, App: app, Decision: &ledger.Decision{Cause: ledger.CausePolicy, Infeasible: lists[app]}}
		require.NoError(t, log.Write(e))
		require.Equal(t, lists[app], e.Infeasible, "the caller's event stays as it is")
		want = append(want, slices.Sorted(slices.Values(lists[app])))
	}
	require.NoError(t, log.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	changes := strings.Count(string(text), `"infeasibleChange"`)
	require.Greater(t, changes, 100)
	require.Greater(t, strings.Count(string(text), `"infeasibleChange":{"of"`), 10)
	require.Greater(t, strings.Count(string(text), `"infeasible":`), 50)
	var got [][]string
	for _, e := range readAll(t, string(text)) {
		if e.Kind == ledger.KindDecide {
			require.Nil(t, e.InfeasibleChange)
			got = append(got, slices.Sorted(slices.Values(e.Infeasible)))
		}
	}
	require.Equal(t, want, got)

	for change, why := range map[string]string{
		`"infeasibleChange":{"removed":["x"]}`:                    "removed x is not in the list",
		`"infeasibleChange":{"added":["a"]}`:                      "added a is already in the list",
		`"infeasible":["a"],"infeasibleChange":{"removed":["a"]}`: "infeasible and infeasibleChange are both there",
		`"infeasibleChange":{"of":"db","added":["c"]}`:            `infeasibleChange.of "db": there is no list of it`,
		`"infeasibleChange":{"added":["c"],"removed":["c"]}`:      "removed c is not in the list",
	} {
		text := `{"seq":1,"time":1,"kind":"start","start":{"version":2,"fleet":"open"}}
{"seq":2,"time":1,"kind":"decide","app":"web","cause":"policy","infeasible":["b","a"]}
{"seq":3,"time":1,"kind":"decide","app":"web","cause":"policy",` + change + "}\n"
		r := ledger.NewReader("d.jsonl", strings.NewReader(text))
		for range 2 {
			_, err = r.Next()
			require.NoError(t, err)
		}
		_, err = r.Next()
		require.ErrorContains(t, err, "d.jsonl:3: ")
		require.ErrorContains(t, err, why)
	}
}
