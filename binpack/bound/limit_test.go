package bound

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

func TestLimit(t *testing.T) {
	tests := []struct {
		name   string
		lines  []binpack.MachineLine
		change func(in *binpack.Instance)
		items  []int64
		want   Bound
	}{
		// Apps of 1, 2 and 3; machines of 10 hold 10, 5 and 3.
		{"sizes", []binpack.MachineLine{packtest.Line(-1, 1, 10)}, func(*binpack.Instance) {}, []int64{9, 9, 9}, Bound{Machines: 3, Cost: 3}},
		// ceil(9/2), group 0 being apps 0 and 2.
		{"a group of two apps", []binpack.MachineLine{packtest.Line(-1, 1, 10)}, func(in *binpack.Instance) {
			in.Groups[0].Limit = 2
			in.Apps[2].Group = 0
		}, []int64{4, 9, 5}, Bound{Machines: 5, Cost: 5}},
		// Ten of app 0 at 2 a machine: three at 1, then two at 4. The same in fractions of machines.
		{
			"the cheapest first",
			[]binpack.MachineLine{packtest.Line(-1, 4, 10), packtest.Line(3, 1, 2)},
			func(in *binpack.Instance) { in.Groups[0].Limit = 2 },
			[]int64{10, 0, 0},
			Bound{Machines: 5, Cost: 11},
		},
		// The cheap machines hold one item of app 2 each: 3 + ceil(2/3 of 4).
		{
			"what small machines hold",
			[]binpack.MachineLine{packtest.Line(-1, 4, 10), packtest.Line(3, 1, 3)},
			func(*binpack.Instance) {},
			[]int64{0, 0, 5},
			Bound{Machines: 2, Cost: 6},
		},
		{"types", []binpack.MachineLine{packtest.Line(-1, 4, 10), {Type: 1, Count: -1, Cost: 1, Capacity: []int64{10}}}, func(in *binpack.Instance) {
			in.Groups[0].Limit = 1
			in.Apps[0].Types = []int32{0}
		}, []int64{3, 0, 0}, Bound{Machines: 3, Cost: 12}},
		{"too few of a type", []binpack.MachineLine{packtest.Line(2, 1, 10), {Type: 1, Count: -1, Cost: 1, Capacity: []int64{10}}}, func(in *binpack.Instance) {
			in.Groups[0].Limit = 1
			in.Apps[0].Types = []int32{0}
		}, []int64{3, 0, 0}, Bound{Short: true}},
		{"spread", []binpack.MachineLine{packtest.Line(-1, 2.5, 10)}, func(in *binpack.Instance) { in.Groups[1].SpreadMin = 4 }, []int64{0, 5, 0}, Bound{Machines: 4, Cost: 10}},
		{"fewer items than spread", []binpack.MachineLine{packtest.Line(-1, 1, 10)}, func(in *binpack.Instance) { in.Groups[1].SpreadMin = 4 }, []int64{0, 3, 0}, Bound{Machines: 3, Cost: 3}},
		{"no machine is large enough", []binpack.MachineLine{packtest.Line(-1, 1, 2)}, func(*binpack.Instance) {}, []int64{0, 0, 3}, Bound{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inst := packtest.Instance(tt.lines, []int64{1}, []int64{2}, []int64{3})
			tt.change(inst)
			tt.want.Method = MethodLimit
			assert.Equal(t, tt.want, Limit(inst, tt.items))
		})
	}
}
