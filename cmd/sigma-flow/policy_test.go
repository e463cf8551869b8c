package main

import (
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
			require.Equal(t, follow.State{On: true, Elsewhere: want, Shaping: true, Thresholds: flow.Thresholds{10_000, 20_000}}, s, uplink)
			return err
		}))
	}
	b.off(t)
}
