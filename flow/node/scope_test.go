package node

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/node/nodetest"
)

func inScope(t testing.TB, o *orderObjects, addresses ...string) {
	t.Helper()
	scope := []netip.Addr{}
	for _, a := range addresses {
		scope = append(scope, netip.MustParseAddr(a))
	}
	settings := inForce(t, o)
	require.NoError(t, setScope(o.Scope, &settings, scope))
	require.NoError(t, o.inForce().write(&settings))
}

var scopeBands = flow.Thresholds{50, 100, 150}

// wrongScopes counts kinds of packets that are in bands by bytes though they should not be, or are not though they should.
func wrongScopes(t testing.TB, o *orderObjects) (wrong []string) {
	t.Helper()
	six := ethernet(0x86dd).ipv6(20+200, 6).tcp(5, ack, 200)
	from6, to6 := netip.AddrFrom16([16]byte(six[22:38])).String(), netip.AddrFrom16([16]byte(six[38:54])).String()
	for name, p := range map[string]packet{
		"IPv4 TCP": data4(ack, 200), "IPv4 UDP": ethernet(0x0800).ipv4(5, 8+200, 17, 0).udp(200),
		"VLAN": ethernet(0x0800, 0x8100).ipv4(15, 20+200, 6, 0).tcp(5, ack, 200), "IPv6": six,
	} {
		from, to := "10.0.0.1", "10.0.0.2"
		if name == "IPv6" {
			from, to = from6, to6
		}
		for _, c := range []struct {
			is    string
			scope []string
			want  [2]int // bands of the first packet and the next
		}{
			{"nobody", nil, [2]int{1, 1}},
			{"the sender", []string{"10.9.9.9", from}, [2]int{0, 3}},
			{"the receiver", []string{to}, [2]int{1, 1}},
		} {
			inScope(t, o, c.scope...)
			require.NoError(t, clearFlows(o))
			if got := [2]int{bandOf(t, o, p), bandOf(t, o, p)}; got != c.want {
				wrong = append(wrong, name+": "+c.is)
			}
		}
	}
	return wrong
}

func clearFlows(o *orderObjects) error {
	var keys []orderKey
	var k orderKey
	var p orderProgress
	all := o.Flows.Iterate()
	for all.Next(&k, &p) {
		keys = append(keys, k)
	}
	for _, k := range keys {
		if err := o.Flows.Delete(&k); err != nil {
			return err
		}
	}
	return all.Err()
}

// Flows from addresses outside the scope go to the middle band, and take no room among the flows. It counts for the next packet
// of flows that run.
func TestOrderScope(t *testing.T) {
	o := openOrder(t, scopeBands)
	require.Empty(t, wrongScopes(t, o))
	inScope(t, o)
	require.NoError(t, clearFlows(o))
	bandOf(t, o, data4(ack, 200))
	var k orderKey
	var p orderProgress
	require.False(t, o.Flows.Iterate().Next(&k, &p))
	inScope(t, o, "10.0.0.1")
	require.Equal(t, 0, bandOf(t, o, data4(ack, 70)), "it has come into the scope")
	require.Equal(t, 1, bandOf(t, o, data4(ack, 1)))
	arp := append(ethernet(0x0806), make([]byte, 28)...)
	require.Equal(t, 1, bandOf(t, o, arp))
	inScope(t, o, "10.0.0.3", "fd00::3")
	left, err := listScope(o.Scope)
	require.NoError(t, err)
	require.Equal(t, []netip.Addr{netip.MustParseAddr("10.0.0.3"), netip.MustParseAddr("fd00::3")}, left)
	settings := inForce(t, o)
	settings.Hints = 7
	require.NoError(t, setScope(o.Scope, &settings, nil))
	_, err = o.set(settings, scopeBands)
	require.NoError(t, err)
	require.Equal(t, 1, bandOf(t, o, data4(ack, 70)), "without a scope all count")
	require.Equal(t, 2, bandOf(t, o, data4(ack, 1)))
	settings = inForce(t, o)
	require.EqualValues(t, 7, settings.Hints, "of another setting")
}

// The table finds errors that somebody could make in the C file.
func TestOrderScopeFaults(t *testing.T) {
	for _, c := range []struct{ name, old, planted string }{
		{"none", "", ""},
		{"the receiver's address", "map_lookup(&scope, key.source)", "map_lookup(&scope, key.destination)"},
		{"all are inside", "none = OUTSIDE", "none = 0"},
		{"without a scope all are outside", "set->scoped && ", "!set->scoped && "},
	} {
		wrong := wrongScopes(t, plant(t, scopeBands, c.old, c.planted))
		require.Equal(t, c.old != "", len(wrong) > 0, "%s: %v", c.name, wrong)
	}
}

func TestScopeRefuses(t *testing.T) {
	pins := pinsOf(t)
	require.ErrorIs(t, SetScope(pins, nil), ErrNoOrder)
	require.ErrorContains(t, SetScope(pins, []netip.Addr{{}}), "scope: an address is empty")
	many := make([]netip.Addr, MostScope+1)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
	}
	require.ErrorContains(t, SetScope(pins, many), "scope: 4097 addresses, want at most 4096")
	refusesOrder(t, OrderOptions{Uplink: "lo", Rate: 1e9, Thresholds: flow.Thresholds{1000}, Pins: pins, Scope: many}, "4097 addresses")
	o := openOrder(t, flow.Thresholds{1000})
	require.NoError(t, setScope(o.Scope, &orderBands{}, many[1:]), "the map has room for them")
}

// A pod outside the scope has none of its bytes in the last band of a real uplink, from the first packet of the order on; the
// scope follows what it is given.
func TestScopeOnUplink(t *testing.T) {
	bed := bedOf(t)
	pins := pinsOf(t)
	nodetest.Listen(t, bed.Peer, nodetest.AddressPeer+":9000")
	require.NoError(t, nodetest.Within(bed.Node, func() error {
		before := state(t)
		pod1, pod2 := netip.MustParseAddr(nodetest.AddressPod1), netip.MustParseAddr(nodetest.AddressPod2)
		o := OrderOptions{Uplink: "up0", Rate: 200e6, Thresholds: flow.Thresholds{20_000, 200_000}, Pins: pins, Scope: []netip.Addr{pod2}}
		turnOn(t, o)
		sends := func(inside bool, scope []netip.Addr) {
			t.Helper()
			was, err := ReadOrder(pins)
			require.NoError(t, err)
			require.Equal(t, scope, was.Scope)
			_, err = nodetest.Exchange(bed.Pod1, nodetest.AddressPeer+":9000", 1_000_000, 1)
			require.NoError(t, err)
			is, err := ReadOrder(pins)
			require.NoError(t, err)
			last, middle := is.Bands[2].Bytes-was.Bands[2].Bytes, is.Bands[1].Bytes-was.Bands[1].Bytes
			if inside {
				require.Greater(t, last, uint64(700_000))
				require.Equal(t, was.Outside, is.Outside)
			} else {
				require.Zero(t, last)
				require.Greater(t, middle, uint64(1_000_000))
				require.Greater(t, is.Outside, was.Outside)
			}
		}
		sends(false, []netip.Addr{pod2})
		require.NoError(t, SetScope(pins, []netip.Addr{pod1}))
		sends(true, []netip.Addr{pod1})
		require.NoError(t, SetScope(pins, []netip.Addr{}))
		sends(false, []netip.Addr{})
		require.NoError(t, SetHints(pins, hintOf(nodetest.AddressPod1, 9000, 1e6)))
		sends(false, []netip.Addr{})
		require.NoError(t, SetScope(pins, nil))
		sends(true, nil)
		o.Scope = []netip.Addr{pod2, pod1}
		turnOn(t, o)
		sends(true, []netip.Addr{pod1, pod2})
		o.Scope = nil
		turnOn(t, o)
		sends(true, nil)
		require.NoError(t, TurnOff(pins, 0))
		require.Equal(t, before, state(t))
		return nil
	}))
}
