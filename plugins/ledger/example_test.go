package ledger_test

import (
	"bytes"
	"fmt"
	"os"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Two nodes of which a pod takes one by Best-Fit, and a log checked.
func Example() {
	l := ledger.New()
	for _, e := range []*ledger.Event{
		{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "fixed"}},
		{Kind: ledger.KindNode, Node: "n1", Machine: &ledger.Machine{Capacity: map[string]int64{"cpu": 16, "pods": 110}}},
		{Kind: ledger.KindNode, Node: "n2", Machine: &ledger.Machine{Capacity: map[string]int64{"cpu": 8, "pods": 110}}},
		{Kind: ledger.KindApp, App: "web", Spec: &ledger.App{Group: "web", Demand: map[string]int64{"cpu": 4, "pods": 1}}},
	} {
		if err := l.Apply(e); err != nil {
			panic(err)
		}
	}
	app := l.AppIndex("web")
	ranked, err := l.Rank(ledger.BestFit, app, l.Fits(app, nil), 2, nil)
	if err != nil {
		panic(err)
	}
	for _, r := range ranked {
		fmt.Println(l.NodeName(r.Machine))
	}

	text, err := os.ReadFile("../../docs/examples/decisions.jsonl")
	if err != nil {
		panic(err)
	}
	v, err := ledger.Verify("decisions.jsonl", bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	fmt.Println(v.Agreed, "of", v.Causes[ledger.CausePolicy], "decisions of a policy agreed; difference:", v.First != nil)
	// Output:
	// n2
	// n1
	// 3 of 3 decisions of a policy agreed; difference: false
}
