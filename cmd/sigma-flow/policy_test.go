package main

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/follow"
	"github.com/sigma-scheduler/sigma/flow/node"
	"github.com/sigma-scheduler/sigma/flow/node/nodetest"
)

// An order on the uplink that an agent before had is elsewhere, and not where no such uplink is there: that one may have
// another name now.
func TestOtherUplink(t *testing.T) {
	b := newKernelBed(t)
	b.order(t, flow.Thresholds{10_000, 20_000})
	for uplink, want := range map[string]bool{"up0": false, "gone0": false, "pod1": true} {
		k := &kernel{options: node.OrderOptions{Uplink: uplink, Pins: b.pins, Rate: kernelRate}, given: true}
		require.NoError(t, nodetest.Within(b.Node, func() error {
			s, err := k.State()
			s.ID = 0
			require.Equal(t, follow.State{On: true, Elsewhere: want, Shaping: true, Thresholds: flow.Thresholds{10_000, 20_000}}, s, uplink)
			return err
		}))
	}
	b.off(t)
}

// Scope and DSCP of an order are read back as they were written, and nobody is not everybody.
func TestOrderOfSettings(t *testing.T) {
	b := newKernelBed(t)
	k := &kernel{options: node.OrderOptions{Uplink: "up0", Pins: b.pins, Rate: kernelRate}, given: true}
	require.NoError(t, nodetest.Within(b.Node, func() error {
		scope := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
		_, err := k.Order(follow.Settings{Thresholds: flow.Thresholds{10_000, 20_000}, Floor: .001, Scope: scope})
		require.NoError(t, err)
		for _, want := range [][]netip.Addr{scope, {}, scope[:1], nil} {
			require.NoError(t, k.Scope(want))
			s, err := k.State()
			require.NoError(t, err)
			require.Equal(t, want, s.Scope)
			is, err := node.ReadOrder(b.pins)
			require.NoError(t, err)
			var out strings.Builder
			require.NoError(t, writeStatus(&out, &is))
			require.Equal(t, want != nil, strings.Contains(out.String(), fmt.Sprintf("flows from %d addresses are in bands by their bytes", len(want))))
		}
		before := uint64(0)
		for _, on := range []bool{true, false, false} {
			id, err := k.Order(follow.Settings{Thresholds: flow.Thresholds{10_000, 20_000}, Floor: .001, DSCP: on})
			require.NoError(t, err)
			s, err := k.State()
			require.NoError(t, err)
			require.Equal(t, id, s.ID)
			require.NotEqual(t, before, s.ID, "whoever has set it")
			before, s.ID = s.ID, 0
			require.Equal(t, follow.State{On: true, Shaping: true, Thresholds: flow.Thresholds{10_000, 20_000}}, s)
			is, err := node.ReadOrder(b.pins)
			require.NoError(t, err)
			var out strings.Builder
			require.NoError(t, writeStatus(&out, &is))
			require.Equal(t, on, strings.Contains(out.String(), "got that of their band: [18 10 8]"))
		}
		return k.Off()
	}))
}
