package flow_test

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
)

const firstBand = 100_000

// A past is a hinter of one pod that declares nothing, and made-up flows, one a second.
type past struct {
	flow.Hinter
	now time.Time
	rng *rand.Rand
}

func newPast() *past {
	p := &past{now: began, rng: rand.New(rand.NewPCG(3, 4))}
	p.Declare(p.now, declared(nil))
	return p
}

// send has the pod send flows to a port, of sizes whose logs have this deviation.
func (p *past) send(flows int, port uint16, size, sigma float64) {
	for range flows {
		p.now = p.now.Add(time.Second)
		p.Judge(p.now, ended(port, size*math.Exp(sigma*p.rng.NormFloat64())), firstBand)
	}
}

func (p *past) state(t *testing.T, port uint16) flow.HintState {
	t.Helper()
	for _, s := range p.States() {
		if s.Port == port && s.From == flow.FromHistory {
			return s
		}
	}
	t.Fatalf("no history of port %d", port)
	panic("unreachable")
}

var database = flow.HintKey{Address: pod, Port: 5432}

// learned is a past that knows the sizes of the database's flows, among others that are of all sizes.
func learned() *past {
	p := newPast()
	for range 200 {
		p.send(1, 5432, 1e7, .3)
		p.send(1, 80, 1e6, 2)
	}
	return p
}

// Steady sizes are used after 30 flows to learn from and 30 to be judged by; those that are of all sizes are not.
func TestHistoryIsUsed(t *testing.T) {
	p := newPast()
	p.send(100, 443, 1e6, 2)
	for i := range 2 * flow.TrustAfter {
		require.Empty(t, p.Trusted(), "after %d flows", i)
		p.send(1, 5432, 1e7, .3)
	}
	require.Len(t, p.Trusted(), 1)
	require.InEpsilon(t, 1e7, p.Trusted()[database], .3)

	p = learned()
	require.Len(t, p.Trusted(), 1)
	steady, all := p.state(t, 5432), p.state(t, 80)
	require.True(t, steady.Used)
	require.Equal(t, "shop/db", steady.Workload)
	require.InDelta(t, .3, *steady.Sigma, .1)
	require.Greater(t, *steady.SigmaNode, 2**steady.Sigma)
	require.Greater(t, *all.Sigma, 1.)
	require.False(t, all.Used)

	// A server's flows have its own port.
	p = newPast()
	for range 100 {
		p.send(1, 80, 2e5, .1)
		p.now = p.now.Add(time.Second)
		r := ended(40000, 1e7)
		r.Source, r.Side = netip.AddrPortFrom(pod, 8080), flow.ServerSide
		p.Judge(p.now, r, firstBand)
	}
	require.InEpsilon(t, 1e7, p.Trusted().Of(netip.AddrPortFrom(pod, 8080), netip.AddrPortFrom(peers, 40001)), .01)
}

// What goes within the first band, or goes on, teaches nothing; nor does a flow of nobody.
func TestHistoryTakes(t *testing.T) {
	p := newPast()
	p.send(100, 5432, firstBand, 0)
	for range 100 {
		r := ended(5432, 1e7)
		r.End = flow.Running
		p.Judge(p.now, r, firstBand)
		r = ended(5432, 1e7)
		r.Source = netip.AddrPortFrom(peers, 40000)
		p.Judge(p.now, r, firstBand)
	}
	require.Empty(t, p.States())
	p.Declare(p.now, nil)
	p.send(100, 5432, 1e7, 0)
	p.Declare(p.now, declared(nil))
	require.Empty(t, p.States(), "no policy wanted any")

	p = learned()
	p.Declare(p.now, nil)
	require.Empty(t, p.States())
	require.Empty(t, p.Trusted())
}

// Where all flows go to one port, its estimate is that of the node, and puts nothing in another order.
func TestHistoryOfOnePort(t *testing.T) {
	p := newPast()
	p.send(500, 5432, 1e7, .3)
	s := p.state(t, 5432)
	require.InDelta(t, *s.Sigma, *s.SigmaNode, .05)
	require.Less(t, *s.Sigma, flow.TrustUpTo)
	require.Empty(t, p.Trusted())
}

// A port whose sizes change is dropped within a hundred flows, and comes back when it is steady again.
func TestHistoryChanges(t *testing.T) {
	p := learned()
	flows := 0
	for ; len(p.Trusted()) > 0; flows++ {
		require.Less(t, flows, 100)
		p.send(1, 5432, 2e8, .3)
		p.send(1, 80, 1e6, 2)
	}
	require.Greater(t, flows, 3, "one is no change")
	for ; len(p.Trusted()) == 0; flows++ {
		require.Less(t, flows, 20_000)
		p.send(1, 5432, 2e8, .3)
		p.send(1, 80, 1e6, 2)
	}
	require.Equal(t, []flow.HintKey{database}, keysOf(p.Trusted()))
	p.send(3*3600, 80, 1e6, 2)
	p.Declare(p.now, declared(nil))
	require.Empty(t, p.Trusted(), "two hours without a flow")
}

func keysOf(h flow.Hints) (keys []flow.HintKey) {
	for k := range h {
		keys = append(keys, k)
	}
	return keys
}

// A size that is told stays while the mean moves little: the kernel's map does not change with each flow.
func TestHistoryStays(t *testing.T) {
	p, told := learned(), map[int64]bool{}
	for range 1000 {
		p.send(1, 5432, 1e7, .3)
		p.send(1, 80, 1e6, 2)
		told[p.Trusted()[database]] = true
	}
	require.LessOrEqual(t, len(told), 2)
	require.NotContains(t, told, int64(0))
}

// A declared size comes before that of history while it is right, and after it when it is not.
func TestHistoryAfterDeclared(t *testing.T) {
	for size, wins := range map[int64]bool{9_000_000: true, 300_000: false} {
		p := learned()
		p.Declare(p.now, declared(map[uint16]int64{5432: size}))
		require.InEpsilon(t, 1e7, p.Trusted()[database], .3, "nothing is known of the declared size yet")
		for range 100 {
			p.send(1, 5432, 1e7, .3)
			p.send(1, 80, 1e6, 2)
		}
		require.Equal(t, wins, p.Trusted()[database] == size)
		require.Equal(t, !wins, p.state(t, 5432).Used)
		require.NotEmpty(t, p.Trusted())
	}
}

// An address that goes to another workload has none of the one before; that has its history where it comes back.
func TestHistoryOfAddresses(t *testing.T) {
	p := learned()
	of := func(workload string, a netip.Addr) flow.Declaration {
		return flow.Declaration{Workload: workload, Addresses: []netip.Addr{a}}
	}
	p.Declare(p.now, []flow.Declaration{of("shop/web", pod)})
	require.Empty(t, p.Trusted())
	p.send(10, 5432, 2e5, 0)
	p.Declare(p.now, []flow.Declaration{of("shop/web", pod), of("shop/db", peers)})
	require.Equal(t, []flow.HintKey{{Address: peers, Port: 5432}}, keysOf(p.Trusted()))
	require.InEpsilon(t, 1e7, p.Trusted()[flow.HintKey{Address: peers, Port: 5432}], .3, "the other's flows are not its own")
	for range 10 {
		p.Declare(p.now, []flow.Declaration{of("shop/db", pod), of("shop/web", pod), of("shop/db", pod)})
		require.Empty(t, p.Trusted(), "the host's network")
	}
	p.Declare(p.now, []flow.Declaration{of("shop/db", netip.AddrFrom16(pod.As16()))})
	require.Equal(t, []flow.HintKey{database}, keysOf(p.Trusted()))
	one := p.States()
	p.Declare(p.now, []flow.Declaration{of("shop/db", pod), of("shop/db", peers)})
	require.Len(t, p.Trusted(), 2)
	require.Equal(t, one, p.States(), "they are of the workload")
}

// However many workloads, ports and addresses there are, what is kept has a bound. A port in use keeps its place.
func TestHistoryIsBounded(t *testing.T) {
	p, all := learned(), declared(nil)
	for i := range flow.MostWorkloads + 10 {
		a := netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)})
		all = append(all, flow.Declaration{Workload: a.String(), Addresses: []netip.Addr{a}})
	}
	p.Declare(p.now, all)
	for port := range uint16(flow.MostHintPorts + 8) {
		p.send(1, 5432, 1e7, .3)
		for _, d := range all[1:] {
			r := ended(20_000+port, 1e6)
			r.Source = netip.AddrPortFrom(d.Addresses[0], 40000)
			for range flow.TrustAfter + 1 {
				p.Judge(p.now, r, firstBand)
			}
		}
	}
	p.send(100, 10_000, 1e6, 0)
	ports, most := map[string]int{}, 0
	for _, s := range p.States() {
		ports[s.Workload]++
		most = max(most, ports[s.Workload])
	}
	require.Len(t, ports, flow.MostWorkloads)
	require.Equal(t, flow.MostHintPorts, most)

	// The port that was silent the longest makes room.
	p = learned()
	for port := range uint16(100) {
		p.send(1, 20_000+port, 1e6, 0)
		p.send(1, 5432, 1e7, .3)
	}
	require.Equal(t, []flow.HintKey{database}, keysOf(p.Trusted()))

	// One workload's addresses do not go beyond the kernel's map.
	p = learned()
	d := declared(nil)
	for i := range flow.MostHints + 10 {
		d[0].Addresses = append(d[0].Addresses, netip.AddrFrom4([4]byte{10, 3, byte(i >> 8), byte(i)}))
	}
	p.Declare(p.now, d)
	first := p.Trusted()
	require.Len(t, first, flow.MostHints)
	require.Equal(t, first, p.Trusted(), "the same ones each time")
}
