package convert

import (
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// tinyTianchi has curves of two points; the names are the competition's.
func tinyTianchi() map[string]string {
	return map[string]string{
		"scheduling_app_resources_2018.csv": "app_1,0.500000|1.0,8.000000|7.5,60.000000,1,0,1\napp_2,2|2,1|1,0,0,1,0\r\n",
		"machine_resources.csv.gz":          "machine_1,4,16,100,7,3,7\nmachine_2,9,32,200,7,7,9\nmachine_3,4,16,100,7,3,7\n",
		"instance_deploy.csv":               "inst_9,app_1,machine_3\ninst_2,app_2,\ninst_3,app_1,machine_2\ninst_4,app_1,machine_3\ninst_5,app_2,",
		"app_interference.csv":              "app_1,app_1,1\napp_2,app_1,0\napp_1,app_2,3\n",
	}
}

func TestTianchi(t *testing.T) {
	tr := convert(t, "tianchi", Options{}, write(t, tinyTianchi()))[0]
	inst := tr.Instance
	var names []string
	for _, d := range inst.Dimensions {
		names = append(names, d.Name)
	}
	assert.Equal(t, []string{"cpu.00", "cpu.01", "mem.00", "mem.01", "disk", "p", "m", "pm"}, names)
	assert.Equal(t, binpack.Dimension{Name: "cpu.00", Unit: "m", One: 1000}, inst.Dimensions[0])
	assert.Equal(t, []int64{500, 1, 8e9, 75e8, 60e9, 1, 0, 1}, inst.Apps[0].Demand)
	assert.Equal(t, []string{"4c16g", "9c32g"}, inst.Types)
	assert.Equal(t, []binpack.MachineLine{
		{Name: "4c16g", Type: 0, Count: 2, Cost: 1, Capacity: []int64{4000, 4, 16e9, 16e9, 100e9, 7, 3, 7}},
		{Name: "9c32g", Type: 1, Count: 1, Cost: 1, Capacity: []int64{9000, 9, 32e9, 32e9, 200e9, 7, 7, 9}},
	}, inst.Machines)
	assert.Equal(t, int32(2), inst.Groups[0].Limit, "one other instance of the same app")
	assert.Equal(t, int32(0), inst.Groups[1].Limit)
	assert.Equal(t, []binpack.Rule{{A: 1, B: 0}, {A: 0, B: 1, Max: 3}}, inst.Rules)

	assert.Equal(t, 3, tr.Initial)
	assert.Equal(t, []trace.Request{
		{Name: "inst_9", App: 0, Count: 1},
		{Name: "inst_3", App: 0, Count: 1},
		{Name: "inst_4", App: 0, Count: 1},
		{Name: "inst_2", App: 1, Count: 1},
		{Name: "inst_5", App: 1, Count: 1},
	}, tr.Requests)
	assert.Equal(t, []trace.Placed{
		{Request: 0, Line: 0, Index: 0, Count: 1}, // machine_3, before the unused machine_1
		{Request: 1, Line: 1, Index: 0, Count: 1},
		{Request: 2, Line: 0, Index: 0, Count: 1},
	}, tr.Placed)
	assert.Equal(t, []trace.Event{{Time: 0, Request: 3, Count: tr.Events[0].Count}, {Time: 1, Request: 4, Count: tr.Events[1].Count}}, tr.Events)
}

func TestTianchiEmptyLargeFirst(t *testing.T) {
	tr := convert(t, "tianchi", Options{Empty: true, LargeFirst: true}, write(t, tinyTianchi()))[0]
	assert.Equal(t, []string{"9c32g", "4c16g"}, tr.Instance.Types)
	assert.Equal(t, []int{1, 2}, []int{tr.Instance.Machines[0].Count, tr.Instance.Machines[1].Count})
	assert.Equal(t, int32(1), tr.Instance.Machines[1].Type)
	assert.Zero(t, tr.Initial)
	assert.Empty(t, tr.Placed)
	require.Len(t, tr.Events, 5)
	assert.Equal(t, "inst_9", tr.Requests[0].Name)
	assert.InDelta(t, 4, tr.Events[4].Time, 0)

	tr = convert(t, "tianchi", Options{LargeFirst: true}, write(t, tinyTianchi()))[0]
	assert.Equal(t, int32(1), tr.Placed[0].Line, "machine_3 is small")
}

func TestTianchiErrors(t *testing.T) {
	apps, machines := "scheduling_app_resources_2018.csv", "machine_resources.csv.gz"
	for _, tt := range []struct{ file, text, want string }{
		{apps, "app_1,1|x,1|1,1,0,0,0", apps + `:1: cpu value 1 "x": `},
		{apps, "app_1,1|1,1|-1,1,0,0,0", apps + `:1: mem value 1 "-1": `},
		{apps, "app_1,1|1,1,1,0,0,0", apps + ":1: mem: 1 points, other apps and curves have 2"},
		{apps, "a,1|1,1|1,1,0,0,0\nb,1|1,1|1,,0,0,0", apps + `:2: disk value 0 "": `},
		{apps, "a,1,1,1,0,0,0\na,1,1,1,0,0,0", apps + `:2: app "a": duplicate app`},
		{apps, "a,1,1", apps + ":1: 3 fields, want 7: app,cpu,mem,disk,P,M,PM"},
		{apps, "a,\"1", apps + ":1: extraneous or missing"},
		{machines, "m,1,1,1,1,1,1\nm,1,1,1,1,1,1", machines + `:2: machine "m": duplicate machine`},
		{machines, "m,1,1,1,1,1,?", machines + `:1: PM value 0 "?": `},
		{"app_interference.csv", "\napp_1,app_7,0", `app_interference.csv:2: other "app_7": unknown app`},
		{"app_interference.csv", "app_7,app_1,0", `app_interference.csv:1: app "app_7": unknown app`},
		{"app_interference.csv", "app_1,app_2,-1", `app_interference.csv:1: k "-1": not a count`},
		{"app_interference.csv", "app_1,app_2,0\napp_1,app_2,1", `app_interference.csv:2: app "app_1", other "app_2": a second rule`},
		{"instance_deploy.csv", "i,app_9,", `instance_deploy.csv:1: app "app_9": unknown app`},
		{"instance_deploy.csv", "i,app_1,machine_9", `instance_deploy.csv:1: machine "machine_9": unknown machine`},
		{"instance_deploy.csv", "i,app_1,\ni,app_1,", `instance_deploy.csv:2: instance "i": duplicate instance`},
	} {
		files := tinyTianchi()
		files[tt.file] = tt.text
		require.ErrorContains(t, convertError("tianchi", write(t, files)), tt.want)
	}

	files := tinyTianchi()
	delete(files, "instance_deploy.csv")
	maps.Copy(files, map[string]string{"instance_deploy.a.csv": "", "instance_deploy.c.csv": ""})
	dir := write(t, files)
	require.EqualError(t, convertError("tianchi", dir), "convert tianchi: several files are named like instance_deploy, give one: "+
		filepath.Join(dir, "instance_deploy.a.csv")+", "+filepath.Join(dir, "instance_deploy.c.csv"))
}

// A part of the instances, by seed; apps, machines and rules stay.
func TestTianchiSample(t *testing.T) {
	paths := []string{data(t, "tianchi2018-common"), data(t, "tianchi2018-prelim-b")}
	whole := convert(t, "tianchi", Options{Empty: true}, paths...)[0]
	opt := Options{Empty: true, Apps: .5, Instances: .25, Seed: 1}
	part := convert(t, "tianchi", opt, paths...)[0]
	require.True(t, reflect.DeepEqual(whole.Instance, part.Instance)) // a diff would take minutes
	assert.InDelta(t, .125*float64(len(whole.Requests)), len(part.Requests), .01*float64(len(whole.Requests)))
	apps := map[int32]bool{}
	for _, q := range part.Requests {
		apps[q.App] = true
	}
	assert.Less(t, len(apps), len(whole.Instance.Apps)*6/10)
	require.True(t, slices.Equal(part.Requests, convert(t, "tianchi", opt, paths...)[0].Requests))
	opt.Seed = 2
	require.False(t, slices.Equal(part.Requests, convert(t, "tianchi", opt, paths...)[0].Requests))
	for _, opt := range []Options{{Apps: -.5}, {Instances: 1.5}, {Apps: math.NaN()}} {
		err := Convert("tianchi", paths, opt, func(*trace.Trace, int) error { return nil })
		require.ErrorContains(t, err, "want a share from 0 to 1")
	}
}

func TestTianchiPublic(t *testing.T) {
	paths := []string{data(t, "tianchi2018-common"), data(t, "tianchi2018-prelim-b")}
	tr := convert(t, "tianchi", Options{Empty: true, LargeFirst: true}, paths...)[0]
	inst := tr.Instance
	assert.Len(t, inst.Dimensions, 200)
	assert.Len(t, inst.Apps, 9338)
	assert.Len(t, tr.Requests, 68224)
	limits, exclusions := 0, 0
	for _, g := range inst.Groups {
		if g.Limit > 0 {
			limits++
		}
	}
	for _, r := range inst.Rules {
		if r.Max == 0 {
			exclusions++
		}
	}
	assert.Equal(t, 33416, limits+len(inst.Rules))
	assert.Equal(t, 9338, limits)
	assert.Equal(t, 13144, exclusions)
	assert.Equal(t, []int{3000, 3000}, []int{inst.Machines[0].Count, inst.Machines[1].Count})
	assert.Equal(t, []string{"92c288g", "32c64g"}, inst.Types)
	assert.Equal(t, 2229, bound.Volume(inst, counts(tr)).Machines)
	assert.Equal(t, 610, bound.Limit(inst, counts(tr)).Machines)
}

// The initial deployment is feasible: no overload, no rule broken.
func TestTianchiInitialDeployment(t *testing.T) {
	paths := []string{data(t, "tianchi2018-common"), data(t, "tianchi2018-prelim-b")}
	tr := convert(t, "tianchi", Options{}, paths...)[0]
	inst := tr.Instance
	assert.Equal(t, 61254, tr.Initial)
	assert.Len(t, tr.Placed, 61254)
	assert.Len(t, tr.Events, 68224-61254)

	type machine struct{ line, index int32 }
	held := map[machine]map[int32]int32{} // app → items
	for _, p := range tr.Placed {
		m := machine{p.Line, p.Index}
		if held[m] == nil {
			held[m] = map[int32]int32{}
		}
		held[m][tr.Requests[p.Request].App]++
	}
	others := map[int32][]binpack.Rule{}
	for _, r := range inst.Rules {
		others[r.A] = append(others[r.A], r)
	}
	overloaded, broken, crowded := 0, 0, 0
	for m, apps := range held {
		used := make([]int64, len(inst.Dimensions))
		for a, n := range apps {
			for d, v := range inst.Apps[a].Demand {
				used[d] += v * int64(n)
			}
			if limit := inst.Groups[a].Limit; limit > 0 && n > limit {
				crowded++
			}
			for _, r := range others[a] {
				if apps[r.B] > r.Max {
					broken++
				}
			}
		}
		for d, v := range used {
			if v > inst.Machines[m.line].Capacity[d] {
				overloaded++
				break
			}
		}
	}
	assert.Len(t, held, 4040)
	assert.Zero(t, overloaded)
	assert.Zero(t, broken)
	assert.Zero(t, crowded)
}
