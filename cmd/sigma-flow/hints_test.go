package main

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/observe"
)

// What the agent sees of flows is what sizes are known from, and what the report says of σ is what they are judged by.
func TestHistory(t *testing.T) {
	watcher, err := observe.NewWatcher(1e9, 1000, 4)
	require.NoError(t, err)
	a := &agent{watcher: watcher}
	pod, now, rng := netip.MustParseAddr("10.1.1.2"), time.Unix(1_700_000_000, 0), rand.New(rand.NewPCG(1, 2))
	a.hinter.Declare(now, []flow.Declaration{{Workload: "shop/db", Addresses: []netip.Addr{pod}}})
	for range 200 {
		now = now.Add(time.Second)
		for _, port := range []uint16{443, 5432} {
			size, sigma := 1e6, 2.
			if port == 5432 {
				size, sigma = 1e7, .2
			}
			a.add(now, flow.Record{
				Interface: "veth1", Source: netip.AddrPortFrom(pod, 40000), Destination: netip.AddrPortFrom(netip.MustParseAddr("10.1.9.2"), port), Protocol: flow.TCP, Side: flow.ClientSide,
				Bytes: uint64(size * math.Exp(sigma*rng.NormFloat64())), Packets: 1, End: flow.Finished,
			})
		}
	}
	known := a.hinter.Trusted()
	require.Len(t, known, 1)
	require.InEpsilon(t, 1e7, known[flow.HintKey{Address: pod, Port: 5432}], .3)
	r, err := watcher.Report(now, "eth0")
	require.NoError(t, err)
	states := a.hinter.states()
	require.Len(t, states, 2)
	for i, p := range r.Ports { // both are in the order of ports
		require.Equal(t, p.Port, states[i].Port)
		require.InDelta(t, *p.SigmaPort, *states[i].Sigma, .1)
		require.InDelta(t, *p.SigmaNode, *states[i].SigmaNode, .1)
		require.Equal(t, p.Port == 5432, states[i].Used)
	}
}
