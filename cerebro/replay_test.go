package cerebro_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// load makes a trace of files, given as name and content in turn.
func load(t testing.TB, files ...string) *trace.Trace {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		text := strings.ReplaceAll(files[i+1], " ", "")
		if files[i] == "trace.yaml" {
			text = files[i+1]
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, files[i]), []byte(strings.TrimPrefix(text, "\n")), 0o600))
	}
	tr, err := trace.Load(dir)
	require.NoError(t, err)
	return tr
}

// A scoring is a policy made of a function.
type scoring struct {
	know  binpack.Knowledge
	score func(s *binpack.State, item binpack.Item, candidates []int32, out []float64)
}

func (p scoring) Knowledge() binpack.Knowledge { return p.know }

func (p scoring) Scorer(s *binpack.State) binpack.Scorer { return scorer{p, s} }

type scorer struct {
	p scoring
	s *binpack.State
}

func (s scorer) Score(item binpack.Item, candidates []int32, out []float64) {
	s.p.score(s.s, item, candidates, out)
}

// lowest puts every item on the lowest position that takes it.
var lowest = scoring{score: func(_ *binpack.State, _ binpack.Item, candidates []int32, out []float64) {
	clear(out)
}}

// replay runs a policy and returns what came out, and its decisions as lines.
func replay(t testing.TB, r *cerebro.Replayer, p binpack.Policy, opt cerebro.Options) (cerebro.Run, []string) {
	t.Helper()
	var lines []string
	opt.Record = func(d cerebro.Decision) {
		tr := r.Trace()
		machine := "-"
		if d.Machine >= 0 {
			machine = tr.MachineName(r.State().Position(d.Machine))
		}
		line := fmt.Sprintf("%g %s %s.%d %s", d.Time, d.Kind, tr.Requests[d.Request].Name, d.Item, machine)
		if len(d.Devices) > 0 {
			line += " " + trace.FormatDevices(tr.Instance, d.Devices)
		}
		lines = append(lines, line)
	}
	run, err := r.Run(p, opt)
	require.NoError(t, err)
	return run, lines
}

// The trace of the table below, without trace.yaml. Placed at the lowest
// position that takes it, with big of 8 cpu and 16 memory, small of 4 and 8:
//
//	 0  r0  2 a of (3, 2)  both on big                       big 6, 4
//	10  r1  2 b of (2, 6)  big and small-00000               big 8, 10; small-0 2, 6
//	20  r2  1 c of (5, 1)  fits nowhere
//	20  r3  1 a            small-00001                       small-1 3, 2
//	30  -r0 1              the second a leaves big           big 5, 8
//	40  -r1                big and small-00000               big 3, 2
//	50  r4  1 c            big                               big 8, 3
//	60  -r3                small-00001
const (
	openMachines  = "machine,type,count,cost,cpu,memory\nbig,x,1,3,8,16\nsmall,x,,1,4,8\n"
	fixedMachines = "machine,type,count,cost,cpu,memory\nbig,x,1,3,8,16\nsmall,x,2,1,4,8\n"
	tableApps     = `
app,group,types,cpu,memory,max_per_machine,spread_min,expected,lifetime
a,,,3,2,,,4,100
b,,,2,6,,,,
c,,,5,1,,,1.5,
`
	tableEvents = `
time,kind,request,app,count
0,create,r0,a,2
10,create,r1,b,2
20,create,r2,c,1
20,create,r3,a,1
30,delete,r0,a,1
40,delete,r1,,
50,create,r4,c,1
60,delete,r3,,
`
)

func tableTrace(t testing.TB, yaml, machines, events string) *trace.Trace {
	t.Helper()
	return load(t, "trace.yaml", "name: table\ndimensions: [cpu, memory]\n"+yaml,
		"machines.csv", machines, "apps.csv", tableApps, "events.csv", events)
}

// TestReplayByHand compares a replay with sums worked out on paper.
func TestReplayByHand(t *testing.T) {
	noTime := tableEvents
	for _, at := range []string{"0", "10", "20", "30", "40", "50", "60"} {
		noTime = strings.ReplaceAll(noTime, "\n"+at+",", "\n5,")
	}
	mean := func(values ...float64) float64 {
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		return sum / float64(len(values))
	}
	// At the end: big alone, with 8 of 8 cpu and 3 of 16 memory. All demand:
	// cpu 6+4+5+3+5 = 23, memory 4+12+1+2+1 = 20; before r2 came cpu 6+4.
	open := cerebro.Run{
		Machines: 1, PeakMachines: 3, Cost: 3, Placed: 6, Unplaced: 1, LeftOut: map[int32]int{2: 1},
		// Ten seconds each of 1, 2, 3, 3, 2, 2 machines that cost 3, 4, 5, 5, 4, 4.
		MachineSeconds: 130, CostSeconds: 250,
		AllocationRate:     []float64{1, 3. / 16},
		MeanAllocationRate: []float64{mean(6./8, 10./12, 13./16, 10./16, 6./12, 11./12), mean(4./16, 16./24, 18./32, 16./32, 4./24, 5./24)},
		Rejected:           []float64{5. / 23, 1. / 20}, FirstRejection: 10. / 23,
	}
	// From 25: 5 seconds of 3 machines (cost 5), then 10 each of 3, 2, 2 (5, 4, 4).
	late := open
	late.MachineSeconds, late.CostSeconds = 85, 155
	late.MeanAllocationRate = []float64{
		(5*13./16 + 10*10./16 + 10*6./12 + 10*11./12) / 35, (5*18./32 + 10*16./32 + 10*4./24 + 10*5./24) / 35,
	}
	// Without time, per event: as after each of the eight.
	still := open
	still.MachineSeconds, still.CostSeconds = 0, 0
	still.MeanAllocationRate = []float64{
		mean(6./8, 10./12, 10./12, 13./16, 10./16, 6./12, 11./12, 8./8),
		mean(4./16, 16./24, 16./24, 18./32, 16./32, 4./24, 5./24, 3./16),
	}
	// Fixed: the same placements, over 16 cpu and 32 memory.
	fixed := open
	fixed.AllocationRate = []float64{8. / 16, 3. / 32}
	fixed.MeanAllocationRate = []float64{mean(6, 10, 13, 10, 6, 11) / 16, mean(4, 16, 18, 16, 4, 5) / 32}
	// With retry r2 takes big at 40, when b has left it, and r4 finds no place at
	// 50: big holds 8, 3 from 40. Placed and unplaced as before, and the first
	// item to be unplaced is still r2. Memory: r4's 1 instead of r2's.
	// r2 waited from 20 to 40, r4 from 50 to the end: 30 seconds of seven items.
	retry := open
	retry.MeanWaiting, retry.LongestWaiting = 30./7, 20
	retry.MeanAllocationRate = []float64{mean(6./8, 10./12, 13./16, 10./16, 11./12, 11./12), mean(4./16, 16./24, 18./32, 16./32, 5./24, 5./24)}

	for _, tc := range []struct {
		name, yaml, machines, events string
		retry                        bool
		want                         cerebro.Run
	}{
		{"open", "fleet: open\n", openMachines, tableEvents, false, open},
		{"measureFrom", "fleet: open\nmeasureFrom: 25\n", openMachines, tableEvents, false, late},
		{"measureFrom before the first event", "fleet: open\nmeasureFrom: -5\n", openMachines, tableEvents, false, open},
		{"no span", "fleet: open\n", openMachines, noTime, false, still},
		{"measureFrom at the last event", "fleet: open\nmeasureFrom: 60\n", openMachines, tableEvents, false, still},
		{"fixed", "fleet: fixed\n", fixedMachines, tableEvents, false, fixed},
		{"retry", "fleet: open\n", openMachines, tableEvents, true, retry},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := cerebro.NewReplayer(tableTrace(t, tc.yaml, tc.machines, tc.events))
			got, _ := replay(t, r, lowest, cerebro.Options{Check: true, Retry: tc.retry})
			for d := range 2 {
				assert.InDelta(t, tc.want.MeanAllocationRate[d], got.MeanAllocationRate[d], 1e-12)
			}
			// Fragment, balance, spread and the tie-breaker have tests of their own.
			tc.want.MeanAllocationRate = got.MeanAllocationRate
			tc.want.Fragment, tc.want.Balance, tc.want.Spread = got.Fragment, got.Balance, got.Spread
			tc.want.ImbalanceTie = got.ImbalanceTie
			assert.Equal(t, tc.want, got)
			// big has 0 of 8 and 13 of 16 free: (0² + (13/16)²)/2.
			if tc.want.Machines == 1 {
				assert.InDelta(t, 13.*13/256/2, got.ImbalanceTie, 1e-12)
			}

			brief, _ := replay(t, r, lowest, cerebro.Options{Retry: tc.retry, Brief: true})
			assert.Equal(t, []any{got.Machines, got.PeakMachines, got.Cost, got.MachineSeconds, got.CostSeconds, got.Placed, got.Unplaced, got.Rejected, got.ImbalanceTie},
				[]any{brief.Machines, brief.PeakMachines, brief.Cost, brief.MachineSeconds, brief.CostSeconds, brief.Placed, brief.Unplaced, brief.Rejected, brief.ImbalanceTie})
		})
	}
}

// TestSeries: as many points as asked for, the last one at the end; brief or not.
func TestSeries(t *testing.T) {
	r := cerebro.NewReplayer(tableTrace(t, "fleet: open\n", openMachines, tableEvents))
	for _, brief := range []bool{false, true} {
		run, _ := replay(t, r, lowest, cerebro.Options{Samples: 4, Brief: brief})
		// Before the 2nd, 4th and 6th of eight events, and after the last.
		require.Equal(t, []cerebro.Sample{
			{Time: 10, Machines: 1, Allocation: []float64{6. / 8, 4. / 16}},
			{Time: 20, Machines: 2, Allocation: []float64{10. / 12, 16. / 24}},
			{Time: 40, Machines: 3, Allocation: []float64{10. / 16, 16. / 32}},
			{Time: 60, Machines: 1, Allocation: []float64{1, 3. / 16}},
		}, run.Series)
	}
	run, _ := replay(t, r, lowest, cerebro.Options{})
	require.Empty(t, run.Series)
}

// TestDeletes: the highest-numbered items not yet deleted go, placed or not;
// an empty count takes all that remain; items of placed.csv are numbered in
// line order.
func TestDeletes(t *testing.T) {
	tr := load(t, "trace.yaml", "name: deletes\ndimensions: [cpu]\nfleet: fixed\n",
		"machines.csv", "machine,type,count,cost,cpu\nm,,4,1,4\nn,,1,1,2\n",
		"apps.csv", "app,group,types,cpu,max_per_machine,spread_min,expected,lifetime\na,,,2,,,,\nb,,,3,,,,\n",
		"placed.csv", "request,app,machine,count,devices\np,a,m-00003,1,\nq,b,m-00001,1,\np,a,n,1,\np,a,m-00003,1,\n",
		"events.csv", `
time,kind,request,app,count
1,delete,p,,2
2,create,r,b,4
3,delete,r,,1
4,delete,r,,2
5,delete,p,,
6,create,s,b,1
7,delete,r,b,
7,delete,q,,1
`)
	_, lines := replay(t, cerebro.NewReplayer(tr), lowest, cerebro.Options{Check: true})
	require.Equal(t, []string{
		"1 remove p.2 m-00003", // p.0 m-00003, p.1 n, p.2 m-00003
		"1 remove p.1 n",
		"2 place r.0 m-00000", // q.0 holds 3 of m-00001, p.0 2 of m-00003, n is too small
		"2 place r.1 m-00002",
		"2 unplaced r.2 -",
		"2 unplaced r.3 -",
		"3 remove r.3 -",
		"4 remove r.2 -",
		"4 remove r.1 m-00002",
		"5 remove p.0 m-00003",
		"6 place s.0 m-00002",
		"7 remove r.0 m-00000",
		"7 remove q.0 m-00001",
	}, lines)
}

// TestRetry: what waits is tried in order of arrival after each delete, and
// what is deleted waits no longer.
func TestRetry(t *testing.T) {
	tr := load(t, "trace.yaml", "name: retry\ndimensions: [cpu]\nfleet: fixed\n",
		"machines.csv", "machine,type,count,cost,cpu\nm,,2,1,4\n",
		"apps.csv", "app,group,types,cpu,max_per_machine,spread_min,expected,lifetime\na,,,4,,,,\nb,,,2,,,,\nc,,,1,,,,\n",
		"events.csv", `
time,kind,request,app,count
0,create,r,c,8
1,create,s,a,1
2,create,u,b,3
3,create,v,c,1
4,delete,r,,1
5,delete,r,,2
6,delete,u,,1
7,delete,r,,2
8,delete,r,,
9,delete,v,,
10,delete,s,,
`)
	r := cerebro.NewReplayer(tr)
	run, lines := replay(t, r, lowest, cerebro.Options{Check: true, Retry: true})
	require.Equal(t, []string{
		"0 place r.0 m-00000", "0 place r.1 m-00000", "0 place r.2 m-00000", "0 place r.3 m-00000",
		"0 place r.4 m-00001", "0 place r.5 m-00001", "0 place r.6 m-00001", "0 place r.7 m-00001",
		"1 unplaced s.0 -",
		"2 unplaced u.0 -", "2 unplaced u.1 -", "2 unplaced u.2 -",
		"3 unplaced v.0 -",
		"4 remove r.7 m-00001",
		"4 place v.0 m-00001", // 1 free: not for s (4), not for u (2)
		"5 remove r.6 m-00001", "5 remove r.5 m-00001",
		"5 place u.0 m-00001", // before u.1, which came with it
		"6 remove u.2 -",
		"7 remove r.4 m-00001", "7 remove r.3 m-00000",
		"8 remove r.2 m-00000", "8 remove r.1 m-00000", "8 remove r.0 m-00000",
		"8 place s.0 m-00000", // came before u.1
		"9 remove v.0 m-00001",
		"9 place u.1 m-00001",
		"10 remove s.0 m-00000", // u.2 waits no longer
	}, lines)
	// 13 items; u.2 was never placed. All demand: cpu 8+4+6+1 = 19.
	assert.Equal(t, []int{12, 1}, []int{run.Placed, run.Unplaced})
	assert.InDelta(t, 2./19, run.Rejected[0], 1e-15)
	assert.InDelta(t, 8./19, run.FirstRejection, 1e-15)

	run, _ = replay(t, r, lowest, cerebro.Options{Check: true})
	assert.Equal(t, []int{8, 5}, []int{run.Placed, run.Unplaced})
	assert.InDelta(t, 11./19, run.Rejected[0], 1e-15)
}

// TestInitialPeak: what stands at the beginning counts.
func TestInitialPeak(t *testing.T) {
	r := cerebro.NewReplayer(load(t, "trace.yaml", "name: peak\ndimensions: [cpu]\nfleet: open\n",
		"machines.csv", "machine,type,count,cost,cpu\nm,,,1,4\n",
		"apps.csv", "app,group,types,cpu,max_per_machine,spread_min,expected,lifetime\na,,,3,,,,\n",
		"placed.csv", "request,app,machine,count,devices\np,a,m-00002,1,\np,a,m-00004,1,\n",
		"events.csv", "time,kind,request,app,count\n1,delete,p,,\n3,create,r,a,1\n4,delete,r,,\n"))
	run, lines := replay(t, r, lowest, cerebro.Options{Check: true})
	require.Equal(t, []string{"1 remove p.1 m-00004", "1 remove p.0 m-00002", "3 place r.0 m-00000", "4 remove r.0 m-00000"}, lines)
	require.Equal(t, []int{2, 0, 1}, []int{run.PeakMachines, run.Machines, run.Placed})
	require.Equal(t, 1.0, run.MachineSeconds)                                         // from 3 to 4
	require.InDelta(t, .75/3, run.MeanAllocationRate[0], 1e-12)                       // 3 of 4 for one second of three
	require.Equal(t, []float64{0}, run.AllocationRate)                                // nothing is left
	require.Equal(t, []float64{0, 1}, []float64{run.Rejected[0], run.FirstRejection}) // nothing was
}

// TestNotFinite: where a score is not finite the fallback decides, or the lowest
// position, and the item is counted.
func TestNotFinite(t *testing.T) {
	// Two open kinds without limit: machines come into being in another order
	// than that of their positions.
	tr := tableTrace(t, "fleet: open\n", "machine,type,count,cost,cpu,memory\nbig,x,,3,8,16\nsmall,x,,1,4,8\n", tableEvents)
	r := cerebro.NewReplayer(tr)
	worst, err := rule.ByName("worstfit", rule.Options{})
	require.NoError(t, err)
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		calls := 0
		// Every second item has one bad score, the last.
		broken := scoring{score: func(_ *binpack.State, item binpack.Item, candidates []int32, out []float64) {
			for i := range out {
				out[i] = -float64(i)
			}
			if item.Serial%2 == 1 { // r1.1 may go to small-00000 and to big-00001, which came into being later
				calls++
				out[len(out)-1] = bad
			}
		}}
		for _, fallback := range []scoring{{}, {score: func(s *binpack.State, item binpack.Item, candidates []int32, out []float64) {
			worst.Scorer(s).Score(item, candidates, out)
		}}} {
			calls = 0
			opt := cerebro.Options{Check: true}
			if fallback.score != nil {
				opt.Fallback = fallback
			}
			got, lines := replay(t, r, broken, opt)
			require.Positive(t, calls)
			require.Equal(t, map[string]int{"score is not finite": calls}, got.Fallbacks)

			// The same decisions by a policy that does not break.
			sound := scoring{score: func(s *binpack.State, item binpack.Item, candidates []int32, out []float64) {
				switch {
				case item.Serial%2 == 0:
					for i := range out {
						out[i] = -float64(i)
					}
				case fallback.score != nil:
					fallback.score(s, item, candidates, out)
				default:
					clear(out)
				}
			}}
			want, wantLines := replay(t, r, sound, cerebro.Options{Check: true})
			require.Equal(t, wantLines, lines)
			want.Fallbacks = got.Fallbacks
			require.Equal(t, want, got)
		}
	}
	// A fallback that is not finite either is an error, also at a retry.
	nan := scoring{score: func(_ *binpack.State, item binpack.Item, _ []int32, out []float64) {
		clear(out)
		if tr.Requests[2].App == item.App { // c, which only fits after a delete
			out[0] = math.NaN()
		}
	}}
	fixed := cerebro.NewReplayer(tableTrace(t, "fleet: fixed\n", fixedMachines, tableEvents))
	_, err = fixed.Run(nan, cerebro.Options{Retry: true, Fallback: nan})
	require.ErrorIs(t, err, binpack.ErrNotFinite)
	require.ErrorContains(t, err, `request "r2"`)
}

// TestSnapshot: the policy before places the first share of the requests, then
// the other takes over what stands.
func TestSnapshot(t *testing.T) {
	r := cerebro.NewReplayer(tableTrace(t, "fleet: open\n", openMachines, tableEvents))
	highest := scoring{score: func(s *binpack.State, _ binpack.Item, candidates []int32, out []float64) {
		for i, m := range candidates {
			out[i] = position(s, m)
		}
	}}
	_, all := replay(t, r, highest, cerebro.Options{})
	_, lines := replay(t, r, highest, cerebro.Options{Before: lowest, Snapshot: .4, Check: true}) // 2 of 5
	require.NotEqual(t, all, lines)
	_, low := replay(t, r, lowest, cerebro.Options{})
	require.Equal(t, low[:4], lines[:4], "r0 and r1, by the policy before")
	require.Equal(t, []string{"20 unplaced r2.0 -", "20 place r3.0 small-00001"}, lines[4:6])
	_, lines = replay(t, r, highest, cerebro.Options{Before: lowest, Snapshot: 1})
	require.Equal(t, low, lines)
	_, lines = replay(t, r, highest, cerebro.Options{Before: lowest})
	require.Equal(t, all, lines)
}

// position is a number that orders machines as their positions do.
func position(s *binpack.State, m int32) float64 {
	line, index := s.Position(m)
	return float64(line)*(1<<20) + float64(index)
}
