package main

import (
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/flow/follow"
	"github.com/sigma-scheduler/sigma/flow/node"
	"github.com/sigma-scheduler/sigma/flow/node/nodetest"
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

// In a real kernel: what two ports have sent is known after 60 flows of each, and the next flow goes to the last band with most of
// its bytes, where by bytes alone few of them get. Nobody has declared anything, and nothing is left when no policy wants it.
func TestKernelHistory(t *testing.T) {
	b := newKernelBed(t)
	nodetest.Listen(t, b.Peer, nodetest.AddressPeer+":9001")
	watcher, err := observe.NewWatcher(kernelRate, 1000, 3)
	require.NoError(t, err)
	a := &agent{watcher: watcher}
	require.NoError(t, nodetest.Within(b.Node, func() error {
		if a.observer, err = node.Open(node.Options{Gap: time.Minute}); err != nil {
			return err
		}
		list, err := node.Interfaces([]string{"pod1"})
		return errors.Join(err, a.observer.Watch(list))
	}))
	defer func() { require.NoError(t, a.observer.Close()) }()
	const large, small, threshold = 600_000, 200_000, 500_000
	p := &v1alpha1.FlowPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "1", Generation: 1}, Spec: v1alpha1.FlowPolicySpec{
		Mode: v1alpha1.Live, Bands: 3, Thresholds: []int64{100_000, threshold}, Hints: true,
	}}
	f := follow.Follower{Node: "node-1", Kernel: &kernel{node.OrderOptions{Uplink: "up0", Rate: kernelRate, Pins: b.pins}, true}}
	step := func() (is node.OrderStatus) {
		require.NoError(t, nodetest.Within(b.Node, func() (err error) {
			f.Hints = a.hinter.Trusted()
			status := f.Follow([]*v1alpha1.FlowPolicy{p}, nil)
			require.Equal(t, v1alpha1.ReasonOrdered, status.Conditions[0].Reason, status.Conditions[0].Message)
			is, err = node.ReadOrder(b.pins)
			return err
		}))
		return is
	}
	send := func(port string, size int64) {
		_, err := nodetest.Exchange(b.Pod1, nodetest.AddressPeer+":"+port, size, 1)
		require.NoError(t, err)
		for { // what an agent's loop does
			r, err := a.observer.Read()
			require.NoError(t, err)
			a.add(time.Now(), r)
			if r.End == flow.Finished && r.Source.Addr() == netip.MustParseAddr(nodetest.AddressPod1) {
				require.InEpsilon(t, size, r.Bytes, .5, "what is sent again counts again")
				return
			}
		}
	}
	a.hinter.Declare(time.Now(), []flow.Declaration{{Workload: "shop/db", Addresses: []netip.Addr{netip.MustParseAddr(nodetest.AddressPod1)}}})
	step()
	defer b.off(t)
	for range 2*flow.TrustAfter - 1 {
		send("9000", large)
		send("9001", small)
	}
	was := step()
	require.Zero(t, was.Hints)
	by := was.Bands[2].Bytes / (2*flow.TrustAfter - 1)
	t.Logf("%d of %d bytes in the last band", by, large)
	require.Less(t, by, uint64(300_000), "by bytes")
	send("9000", large)
	send("9001", small)
	was = step()
	require.Equal(t, 2, was.Hints)
	send("9000", large)
	is := step()
	t.Logf("%d by history", is.Bands[2].Bytes-was.Bands[2].Bytes)
	require.Greater(t, is.Bands[2].Bytes-was.Bands[2].Bytes, uint64(350_000), "by history")
	p.Spec.Hints, p.Generation = false, 2
	require.Zero(t, step().Hints)
}
