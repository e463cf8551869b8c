package observe

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
)

var begin = time.Unix(1_700_000_000, 0).UTC()

func record(from, to string, size uint64) flow.Record {
	return flow.Record{
		Interface: "veth1", Source: netip.MustParseAddrPort(from), Destination: netip.MustParseAddrPort(to),
		Protocol: flow.TCP, Side: flow.ClientSide, Bytes: size, Packets: 1, End: flow.Finished,
	}
}

func watcher(t *testing.T, rate float64) *Watcher {
	t.Helper()
	w, err := NewWatcher(rate, 1000, 4)
	require.NoError(t, err)
	return w
}

func heavy(t *testing.T) *flow.Sizes {
	t.Helper()
	s, err := flow.ParseSizes("heavy", strings.NewReader("size_bytes,cdf\n100,0\n10e3,.5\n100e3,.8\n1e6,.9\n10e6,.98\n30e6,1\n"), false)
	require.NoError(t, err)
	return s
}

// fill adds n flows of web clients.
func fill(t *testing.T, w *Watcher, n int) {
	t.Helper()
	s := heavy(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		w.Add(begin, record(fmt.Sprintf("10.0.0.1:%d", 32768+i), "10.0.9.9:443", uint64(s.Quantile(rng.Float64()))))
	}
}

func report(t *testing.T, w *Watcher, now time.Time) *Report {
	t.Helper()
	r, err := w.Report(now, "eth0")
	require.NoError(t, err)
	return r
}

// With flows and load there are thresholds, and short flows would wait less; minutes later nothing is better.
func TestReport(t *testing.T) {
	w := watcher(t, 1e9)
	fill(t, w, 1000)
	w.Uplink(begin, 5000)
	w.Uplink(begin.Add(time.Minute), 5000+.8*60*1e9/8)
	r := report(t, w, begin.Add(time.Minute))
	require.InDelta(t, .8, *r.Load, 1e-9)
	require.InDelta(t, 8e8, *r.Sent, 1)
	require.False(t, r.Held, r.Reason)
	thresholds, err := flow.ParseThresholds(r.Thresholds)
	require.NoError(t, err)
	require.Len(t, thresholds, 3)
	require.Less(t, *r.Waits.ShortBands, r.Waits.ShortFair/3)
	require.Greater(t, r.Waits.ShortCommon, r.Waits.ShortFair)
	require.Less(t, *r.Waits.AllShare, 1.)
	require.Regexp(t, `^At this load short flows wait [0-9.]+ ms where all share evenly and about [0-9.]+ ms in a common queue; in bands they would wait [0-9.]+ ms\.$`, r.Sentence())

	again := report(t, w, begin.Add(2*time.Minute))
	for i := 3; i < 6 && !again.Held; i++ { // a search begins with what the one before found
		r, again = again, report(t, w, begin.Add(time.Duration(i)*time.Minute))
	}
	require.True(t, again.Held, again.Reason)
	require.Equal(t, r.Thresholds, again.Thresholds)
	require.Equal(t, r.Waits, again.Waits)

	var text bytes.Buffer
	r.Health = &Health{Interfaces: 2, Lost: 3}
	sigma, all := .4, 1.7
	r.Hints = []flow.HintState{{HintSource: flow.HintSource{Workload: "shop/db", Port: 5432, Size: 10_000_000, From: flow.FromDeclared}, Flows: 31, Sigma: &sigma, Used: true}, {
		HintSource: flow.HintSource{Workload: "shop/web", Port: 443, Size: 3_200_000, From: flow.FromHistory}, Flows: 1234, Sigma: &sigma, SigmaNode: &all, Used: true,
	}}
	require.NoError(t, r.Text(&text))
	require.Contains(t, text.String(), "uplink eth0 of 1Gbit/s, 800 Mbit/s over 60 s, load 0.8\n1000 flows and ")
	require.Contains(t, text.String(), "2 interfaces, – of their packets seen; 3 records lost")
	require.Regexp(t, `veth1 +tcp/443 +client +1000 `, text.String())
	require.Regexp(t, `shop/db +5432 +10M +declared +31 +0.40 +– +true\n *shop/web +443 +3.2M +history +1234 +0.40 +1.70 +true`, text.String())
}

// Why there is no figure is said.
func TestNothingToSay(t *testing.T) {
	w := watcher(t, 0)
	fill(t, w, 1000)
	require.Equal(t, "Nothing to say yet: the rate of the uplink is unknown: say --rate.", report(t, w, begin).Sentence())

	w = watcher(t, 1e9)
	require.Equal(t, "Nothing to say yet: the load of the uplink is not known yet.", report(t, w, begin).Sentence())
	w.Uplink(begin, 0)
	w.Uplink(begin.Add(time.Minute), 1e9)
	require.Equal(t, "Nothing to say yet: 0 flows seen, want 250.", report(t, w, begin).Sentence())
	fill(t, w, 249)
	require.Equal(t, "Nothing to say yet: 249 flows seen, want 250.", report(t, w, begin).Sentence())

	idle := watcher(t, 1e9)
	fill(t, idle, 300)
	idle.Uplink(begin, 7)
	idle.Uplink(begin.Add(time.Minute), 7)
	require.Equal(t, "Nothing to say yet: load is 0.", report(t, idle, begin).Sentence())
	idle.Uplink(begin.Add(2*time.Minute), 100_000)
	require.Contains(t, report(t, idle, begin).Sentence(), "no bands are proposed: proposed ", "at no load nothing is gained")
}

// The load is that of ten minutes; a counter that goes back begins again.
func TestMeter(t *testing.T) {
	var m meter
	_, _, ok := m.rate()
	require.False(t, ok)
	for i := range 30 {
		m.add(begin.Add(time.Duration(i)*time.Minute), uint64(i*i)*1000)
	}
	bits, over, ok := m.rate()
	require.True(t, ok)
	require.Equal(t, 10*time.Minute, over)
	require.InDelta(t, (29.*29-19*19)*8000/600, bits, 1e-9)
	m.add(begin.Add(time.Hour), 5)
	_, _, ok = m.rate()
	require.False(t, ok)
	m.add(begin.Add(time.Hour), 50) // no time has passed
	_, _, ok = m.rate()
	require.False(t, ok)
	m.add(begin.Add(time.Hour+time.Second), 150)
	bits, _, _ = m.rate()
	require.InDelta(t, 800, bits, 1e-9)
}

// Ten peers have sizes of their own, each with a deviation of .3 in the log: histories by peer find that, those by
// port see the peers' differences too, and an estimate for the node those between ports.
func TestHistories(t *testing.T) {
	w := watcher(t, 1e9)
	rng := rand.New(rand.NewPCG(5, 6))
	now := begin
	for i := range 20_000 {
		now = now.Add(time.Second)
		peer, port := i%10, []string{"443", "9000"}[i/10%2]
		center := math.Log(1e6) + float64(peer-5)*.4
		if port == "9000" {
			center += 4
		}
		w.Add(now, record(fmt.Sprintf("10.0.0.1:%d", 32768+i), fmt.Sprintf("10.0.9.%d:%s", peer, port), uint64(math.Exp(center+.3*rng.NormFloat64()))))
	}
	r := report(t, w, now)
	require.Len(t, r.Ports, 2)
	// Centres of ten peers, .4 apart: variance .16·(10² − 1)/12 = 1.32. Two ports, 4 apart: 4 more.
	for _, p := range r.Ports {
		require.InEpsilon(t, .3, *p.SigmaPeer, .1, p.Key)
		require.InEpsilon(t, math.Sqrt(1.32+.09), *p.SigmaPort, .1, p.Key)
		require.InEpsilon(t, math.Sqrt(4+1.32+.09), *p.SigmaNode, .1, p.Key)
		require.InEpsilon(t, 10_000-10*flow.TrustAfter, p.Judged, .02, "some are within the first band")
	}
}

// What a history learned an hour ago counts half, and short flows do not count at all.
func TestHistoryForgets(t *testing.T) {
	var h flow.History
	for range 1000 {
		h.Add(begin, 10)
	}
	for range 1000 {
		h.Add(begin.Add(flow.HalfLife), 16)
	}
	require.InDelta(t, 14, h.Mean, .01) // (1/2·10 + 1·16) ÷ (3/2)
	w := watcher(t, 1e9)
	for i := range 100 {
		w.Add(begin, record(fmt.Sprintf("10.0.0.1:%d", 32768+i), "10.0.9.9:443", firstBand))
	}
	require.Nil(t, report(t, w, begin).Ports[0].SigmaPort)
	require.Zero(t, w.node.Flows)
}

// An elephant counts once, however often it was told of, and is no size before its end.
func TestElephants(t *testing.T) {
	w := watcher(t, 1e9)
	big := record("10.0.0.1:40000", "10.0.9.9:443", 10_000_000)
	big.End = flow.Running
	w.Add(begin, big)
	big.Bytes = 20_000_000
	w.Add(begin, big)
	r := report(t, w, begin)
	require.Equal(t, 1, r.Running)
	require.Equal(t, uint64(20_000_000), r.RunningB)
	require.Equal(t, uint64(1), r.Ports[0].Elephants)
	require.Zero(t, r.Window)
	big.Bytes, big.End = 25_000_000, flow.Finished
	w.Add(begin, big)
	w.Add(begin, record("10.0.0.1:40001", "10.0.9.9:443", 10_000_000)) // in one go
	r = report(t, w, begin)
	require.Equal(t, 0, r.Running)
	require.Equal(t, uint64(2), r.Ports[0].Elephants)
	require.Equal(t, uint64(35_000_000), r.Bytes)

	big.End = flow.Running
	w.Add(begin, big)
	require.Equal(t, 1, report(t, w, begin.Add(forgotten)).Running)
	require.Equal(t, 0, report(t, w, begin.Add(forgotten+1)).Running, "its end was lost")
}

// Ports and peers beyond the bounds share what is left, and make room when they are silent.
func TestBounds(t *testing.T) {
	w := watcher(t, 1e9)
	for i := range MostPorts + 5 {
		w.Add(begin, record("10.0.0.1:40000", fmt.Sprintf("10.0.9.9:%d", 1+i), 200_000))
	}
	r := report(t, w, begin)
	require.Len(t, r.Ports, MostPorts+1)
	require.Equal(t, uint64(5), r.Unnamed)
	require.Equal(t, uint64(5), w.ports[Other].flows)
	for i := range MostPeers + 5 {
		w.Add(begin, record("10.0.0.1:40000", netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}), 443).String(), 200_000))
	}
	require.Len(t, w.peers, MostPeers)
	w.forget(begin.Add(silent + 1))
	require.Empty(t, w.ports)
	w.forget(begin.Add(4*flow.HalfLife + 1))
	require.Empty(t, w.peers)

	w.Add(begin, record("10.0.0.1:40000", "10.0.9.9:443", 0))
	require.Equal(t, uint64(1), w.refused)
	require.Empty(t, w.ports)
}

// A client is told from a server by who began, else by the lower port.
func TestKeys(t *testing.T) {
	r := record("10.0.0.1:8080", "10.0.9.9:443", 1)
	require.Equal(t, "veth1-tcp-443-client", keyOf(r).String())
	r.Side = flow.ServerSide
	require.Equal(t, "veth1-tcp-8080-server", keyOf(r).String())
	r.Side = flow.UnknownSide
	require.Equal(t, "veth1-tcp-443-client", keyOf(r).String())
	r.Source, r.Protocol = netip.MustParseAddrPort("10.0.0.1:53"), flow.UDP
	require.Equal(t, "veth1-udp-53-server", keyOf(r).String())
	require.Equal(t, "other", Other.String())
}

// What is written is read as the same distribution.
func TestSizes(t *testing.T) {
	w := watcher(t, 1e9)
	fill(t, w, 500)
	w.Add(begin, record("10.0.0.1:40000", "10.0.9.9:80", 7))
	all := w.Sizes(30)
	require.Len(t, all, 2, "one flow is too few")
	for k, s := range all {
		var file bytes.Buffer
		require.NoError(t, s.Write(&file, "sizes", "of two\nlines"))
		back, err := flow.ParseSizes(k.String(), &file, false)
		require.NoError(t, err)
		require.Equal(t, s.Points(), back.Points())
	}
	require.Len(t, w.Sizes(1), 3)
}

func TestRefused(t *testing.T) {
	for _, rate := range []float64{-1, math.NaN(), math.Inf(1)} {
		_, err := NewWatcher(rate, 0, 4)
		require.ErrorContains(t, err, "want bits per second")
	}
	_, err := NewWatcher(1, 0, 1)
	require.ErrorContains(t, err, "1 bands: want 2 to 8")
}
