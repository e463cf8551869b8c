package flow_test

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
)

// Up to the first threshold a hint changes nothing; after it only one that is deeper than the bytes does.
func TestHinted(t *testing.T) {
	bands := flow.Thresholds{100, 1000, 10_000}
	for _, c := range []struct {
		sent, hint int64
		want       int
		text       string
	}{
		{0, 1_000_000, 0, "before the first threshold"},
		{99, 1_000_000, 0, "just before it"},
		{100, 1_000_000, 3, "at it"},
		{100, 0, 1, "nobody says a size"},
		{100, 1, 1, "a hint that is less than was sent"},
		{5000, 500, 2, "a hint of an earlier band than the bytes'"},
		{100, 1000, 1, "the last byte is that before the threshold"},
		{100, 1001, 2, "the last byte is behind it"},
		{20_000, 50_000, 3, "there is none deeper"},
	} {
		require.Equal(t, c.want, bands.Hinted(c.sent, c.hint), c.text)
	}
}

func TestParseHints(t *testing.T) {
	sizes, err := flow.ParseHints("5432=10M, 80=20k")
	require.NoError(t, err)
	require.Equal(t, map[uint16]int64{5432: 10_000_000, 80: 20_000}, sizes)
	for text, want := range map[string]string{
		"": "want a port and a size", "80": "want a port and a size", "0=1k": `port "0": want 1 to 65535`, "65536=1k": "want 1 to 65535", "http=1k": "want 1 to 65535",
		"80=": "port 80: ", "80=NaN": "port 80: ", "80=1.5": "want whole bytes, 1 to 1T", "80=2T": "want whole bytes, 1 to 1T", "80=-1": "port 80: ", "80=1k,80=2k": "port 80: twice",
		"1=1,2=1,3=1,4=1,5=1,6=1,7=1,8=1,9=1,10=1,11=1,12=1,13=1,14=1,15=1,16=1,17=1,18=1,19=1,20=1,21=1,22=1,23=1,24=1,25=1,26=1,27=1,28=1,29=1,30=1,31=1,32=1,33=1": "more than 32 ports",
	} {
		_, err := flow.ParseHints(text)
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzHints(f *testing.F) {
	f.Add("5432=10M,80=20k")
	f.Fuzz(func(t *testing.T, text string) {
		sizes, err := flow.ParseHints(text)
		if err != nil {
			return
		}
		var parts []string
		for port, size := range sizes {
			require.True(t, port > 0 && size >= 1 && size <= flow.LargestThreshold, text)
			parts = append(parts, strings.TrimSpace(netip.AddrPortFrom(netip.IPv4Unspecified(), port).String()[len("0.0.0.0:"):])+"="+flow.FormatAmount(float64(size)))
		}
		again, err := flow.ParseHints(strings.Join(parts, ","))
		require.NoError(t, err)
		require.Equal(t, sizes, again)
	})
}

var (
	began = time.Unix(1_700_000_000, 0)
	pod   = netip.MustParseAddr("10.1.1.2")
	peers = netip.MustParseAddr("10.1.9.2")
)

func ended(port uint16, size float64) flow.Record {
	return flow.Record{
		Source: netip.AddrPortFrom(pod, 40000), Destination: netip.AddrPortFrom(peers, port), Protocol: flow.TCP, Side: flow.ClientSide,
		Bytes: uint64(size), Packets: 1, End: flow.Finished,
	}
}

func declared(sizes map[uint16]int64) []flow.Declaration {
	return []flow.Declaration{{Workload: "shop/db", Addresses: []netip.Addr{pod}, Sizes: sizes}}
}

// A declared size is used after 30 flows beyond the first band, and while their logs deviate by 1 at most.
func TestTrust(t *testing.T) {
	const first = 100_000
	var h flow.Hinter
	all := declared(map[uint16]int64{5432: 10_000_000})
	h.Declare(began, all)
	rng := rand.New(rand.NewPCG(1, 2))
	size := func(sigma float64) float64 { return math.Max(first+1, 1e7*math.Exp(sigma*rng.NormFloat64())) }
	for range 100 {
		h.Judge(began, ended(5432, first), first) // within the first band it does not count
		h.Judge(began, ended(9999, 5e6), first)   // nobody has said a size
	}
	running := ended(5432, 1e9)
	running.End = flow.Running
	h.Judge(began, running, first)
	require.Zero(t, h.States()[0].Flows)
	require.Nil(t, h.States()[0].Sigma)
	for i := range flow.TrustAfter {
		require.Empty(t, h.Trusted(), "after %d flows", i)
		h.Judge(began, ended(5432, size(.5)), first)
	}
	key := flow.HintKey{Address: pod, Port: 5432}
	require.Equal(t, flow.Hints{key: 10_000_000}, h.Trusted())
	require.InDelta(t, .5, *h.States()[0].Sigma, .2)

	// It goes wrong: a factor of 20 in all flows is found out within a hundred of them. It is right again: trusted again.
	wrong := 0
	for ; len(h.Trusted()) > 0; wrong++ {
		require.Less(t, wrong, 100)
		h.Judge(began, ended(5432, 2e8), first)
	}
	require.Greater(t, *h.States()[0].Sigma, 1.)
	for range 2000 {
		h.Judge(began, ended(5432, size(.5)), first)
	}
	require.NotEmpty(t, h.Trusted())

	// A bias counts as an error, though all flows are alike.
	other := declared(map[uint16]int64{5432: 500_000})
	h.Declare(began, other)
	require.Empty(t, h.Trusted(), "another size begins again")
	for range 100 {
		h.Judge(began, ended(5432, 1e7), first)
	}
	require.Empty(t, h.Trusted())
	require.InDelta(t, math.Log(20), *h.States()[0].Sigma, 1e-9)

	// The workload comes back within two hours: its flows still count; later they do not.
	h.Declare(began.Add(time.Hour), all)
	require.NotEmpty(t, h.Trusted())
	h.Declare(began.Add(time.Hour), nil)
	require.Empty(t, h.Trusted())
	require.Empty(t, h.States())
	h.Declare(began.Add(3*time.Hour), nil)
	h.Declare(began.Add(3*time.Hour), all)
	require.Empty(t, h.Trusted())
}

// The sender's port comes before that of the other side, and two that say different sizes of the same flows say nothing.
func TestDeclared(t *testing.T) {
	h := flow.Hints{{Address: pod, Port: 5432}: 7, {Address: pod, Port: 80}: 8}
	at := netip.AddrPortFrom
	require.EqualValues(t, 7, h.Of(at(pod, 5432), at(peers, 80)))
	require.EqualValues(t, 8, h.Of(at(pod, 40000), at(peers, 80)))
	require.Zero(t, h.Of(at(peers, 40000), at(pod, 80)), "what others send to it")

	mapped := netip.AddrFrom16(pod.As16())
	two := append(declared(map[uint16]int64{80: 5, 81: 5}), flow.Declaration{Workload: "shop/web", Addresses: []netip.Addr{mapped}, Sizes: map[uint16]int64{80: 6}})
	for range 10 { // whatever the order of a map
		var hinter flow.Hinter
		hinter.Declare(began, two)
		require.Len(t, hinter.States(), 1)
		require.Equal(t, flow.HintSource{Workload: "shop/db", Port: 81, Size: 5, From: flow.FromDeclared}, hinter.States()[0].HintSource)
	}
}

// After hours without flows one that is off takes no trust away, and one that is right gives none: as many count as trust wants.
func TestTrustAfterSilence(t *testing.T) {
	for _, right := range []bool{true, false} {
		var e flow.Errors
		now := time.Date(2026, 5, 4, 8, 0, 0, 0, time.UTC)
		before, after := 0., 1.3
		if !right {
			before, after = 1.3, 0
		}
		for range 300 {
			now = now.Add(time.Second)
			e.Add(now, before)
		}
		require.Equal(t, right, e.Trusted())
		e.Add(now.Add(12*time.Hour), after)
		require.Equal(t, right, e.Trusted())
		for range 100 {
			e.Add(now.Add(12*time.Hour), after)
		}
		require.Equal(t, !right, e.Trusted(), "many do")
	}
}
