package ledgertest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Sizes of a recorded cluster.
const (
	nodes     = 20
	nodeCores = 16
	perHour   = 24 // pods
)

// Days writes the log of a small cluster from one time to another: pods of six apps arrive every few
// minutes, are placed on the node with the most free cores, and leave within half a day.
func Days(tb testing.TB, w io.Writer, from, until time.Time, seed uint64) {
	tb.Helper()
	out := bufio.NewWriter(w)
	seq := uint64(0)
	write := func(at time.Time, e ledger.Event) {
		seq++
		e.Seq, e.Time = seq, float64(at.UnixMilli())/1e3
		text, err := json.Marshal(&e)
		require.NoError(tb, err)
		_, err = out.Write(append(text, '\n'))
		require.NoError(tb, err)
	}
	write(from, ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Profile: "sigma", Fleet: "fixed", Units: map[string]string{"cpu": "m"}}})
	free := make([]int64, nodes)
	for i := range free {
		free[i] = nodeCores * 1000
		write(from, ledger.Event{Kind: ledger.KindNode, Node: fmt.Sprintf("node-%02d", i), Machine: &ledger.Machine{
			Capacity: map[string]int64{"cpu": free[i], "memory": 64 << 30, "pods": 110}, Cost: 1,
		}})
	}
	needs := []int64{500, 1000, 1500, 2000, 3000, 4000} // by app, in m
	for i, need := range needs {
		write(from, ledger.Event{Kind: ledger.KindApp, App: fmt.Sprintf("shop/app-%d", i), Spec: &ledger.App{
			Group: fmt.Sprintf("shop/app-%d", i), Demand: map[string]int64{"cpu": need, "memory": need << 21, "pods": 1},
		}})
	}
	type pod struct {
		leaves  time.Time
		uid     string
		app, on int
	}
	var there []pod
	rng := rand.New(rand.NewPCG(seed, 0))
	number := 0
	for at := from.Add(time.Second); at.Before(until); at = at.Add(time.Hour / perHour) {
		for len(there) > 0 && there[0].leaves.Before(at) {
			p := there[0]
			there = there[1:]
			free[p.on] += needs[p.app]
			write(p.leaves, ledger.Event{Kind: ledger.KindRemove, Pod: "shop/" + p.uid, UID: p.uid})
		}
		app := rng.IntN(len(needs))
		on := 0
		for i := range free {
			if free[i] > free[on] {
				on = i
			}
		}
		if free[on] < needs[app] {
			continue
		}
		number++
		p := pod{at.Add(time.Duration(1+rng.IntN(11))*time.Hour + 7*time.Second), fmt.Sprintf("pod-%05d", number), app, on}
		free[on] -= needs[app]
		of := ledger.Event{Pod: "shop/" + p.uid, UID: p.uid, App: fmt.Sprintf("shop/app-%d", app)}
		arrives, decided := of, of
		arrives.Kind = ledger.KindArrive
		write(at, arrives)
		decided.Kind, decided.Node, decided.Decision = ledger.KindDecide, fmt.Sprintf("node-%02d", on), &ledger.Decision{Cause: ledger.CauseNeutral}
		write(at.Add(100*time.Millisecond), decided)
		i, _ := slices.BinarySearchFunc(there, p, func(a, b pod) int { return cmp.Or(a.leaves.Compare(b.leaves), cmp.Compare(a.uid, b.uid)) })
		there = slices.Insert(there, i, p)
	}
	require.NoError(tb, out.Flush())
}
