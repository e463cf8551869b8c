package node

import (
	"github.com/cilium/ebpf"

	"github.com/sigma-scheduler/sigma/flow"
)

// The DSCP of classes of service (RFC 4594, figure 3).
const (
	af41 = 34 // multimedia conferencing
	af31 = 26 // multimedia streaming
	af21 = 18 // low-latency data
	af22 = 20
	af11 = 10 // high-throughput data
	af12 = 12
	af13 = 14
	cs1  = 8 // low-priority data
)

// dscps are those of bands, by the number of bands.
var dscps = [flow.MostBands + 1][]uint8{
	2: {af21, cs1},
	3: {af21, af11, cs1},
	4: {af31, af21, af11, cs1},
	5: {af41, af31, af21, af11, cs1},
	6: {af41, af31, af21, af11, af12, cs1},
	7: {af41, af31, af21, af11, af12, af13, cs1},
	8: {af41, af31, af21, af22, af11, af12, af13, cs1},
}

// dscp returns the code points that the program writes, by band; 0 = not
// written.
func (o *OrderOptions) dscp() (by [flow.MostBands]uint8) {
	if o.DSCP {
		copy(by[:], dscps[len(o.Thresholds)+1])
	}
	return by
}

// program is the one that does not write into packets, unless DSCP is set.
func (o *OrderOptions) program(objects *orderObjects) *ebpf.Program {
	if o.DSCP {
		return objects.Mark
	}
	return objects.Order
}
