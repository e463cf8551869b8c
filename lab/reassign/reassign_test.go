package reassign

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tiny is an instance of two resources, the first transient: three machines in two locations and two
// neighbourhoods, a service that needs another and two locations.
const tiny = `2
1 10
0 100
3
0 0 10 12 8 6 0 1 2
0 1 9 12 9 9 1 0 3
1 1 9 9 5 5 2 3 0
2
2 0
1 1 0
3
0 4 5 7
0 3 4 1
1 2 3 2
1
0 1 2
10
1 2 3
`

func TestReadAndCost(t *testing.T) {
	p, _, err := Read(tiny, "0 1 0\n")
	require.NoError(t, err)
	require.Equal(t, Cost{
		// Machine 0 holds 6 and 8, machine 1 3 and 4, safe are 8 and 6.
		Load: 100 * (8 - 6),
		// Free: 4 and 4, 6 and 8, 9 and 9; wanted are two of the second for one of the first.
		Balance: 10 * (4 + 4 + 9),
	}, p.Cost(p.Start))
	require.Equal(t, Cost{
		Load: 100 * (8 - 6), Balance: 10 * (4 + 6 + 7),
		Process: 1 * 1, Service: 2 * 1, Machine: 3 * 3,
	}, p.Cost([]int32{0, 2, 0}))
}

func TestBadFiles(t *testing.T) {
	for name, c := range map[string]struct{ old, change, assignment, file, want string }{
		"no number":             {"1 10", "1 x", "0 1 0", "model", `2: a weight "x": want a whole number from 0 to 2147483647`},
		"negative":              {"1 10", "1 -1", "0 1 0", "model", `2: a weight "-1"`},
		"unknown service":       {"1 2 3 2\n1", "2 2 3 2\n1", "0 1 0", "model", `14: a service "2": want a whole number from 0 to 1`},
		"cut":                   {"1 2 3\n", "1 2\n", "0 1 0", "model", "the file ends where the weight of moves between machines should stand"},
		"more":                  {"1 2 3\n", "1 2 3\n\n4", "0 1 0", "model", `20: "4" follows the last number`},
		"unknown machine":       {"", "", "0 1 3", "assignment", `1: the machine of process 2 "3": want a whole number from 0 to 2`},
		"too few":               {"", "", "0 1", "assignment", "1: the file ends where the machine of process 2 should stand"},
		"conflict":              {"", "", "0 0 0", "assignment", "1: machine 0 has two processes of service 0"},
		"spread":                {"", "", "1 2 1", "assignment", "service 0 is in 1 locations, fewer than 2"},
		"dependency":            {"", "", "0 1 2", "assignment", "service 1 runs in neighbourhood 1 without service 0"},
		"overfull":              {"0 0 10 12", "0 0 5 12", "0 1 0", "assignment", "machine 0 holds 6 of resource 0, more than its 5"},
		"costs pass the limit":  {"0 1 2\n10", "0 1 2147483647\n2147483647", "0 1 0", "model", "1: weights and amounts may cost more than 2⁶²"},
		"a billion of machines": {"\n3\n0", "\n1000000000\n0", "0 1 0", "model", "4: the number of machines"},
	} {
		t.Run(name, func(t *testing.T) {
			_, file, err := Read(strings.Replace(tiny, c.old, c.change, 1), c.assignment)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, c.file, file)
		})
	}
}

// random is an instance with a valid start: 4 to 6 machines, up to 9 processes.
func random(rng *rand.Rand) *Problem {
	for {
		p := &Problem{ProcessWeight: rng.Int64N(3), ServiceWeight: rng.Int64N(20), MachineWeight: rng.Int64N(3)}
		machines := 4 + rng.IntN(3)
		for range 2 {
			p.Transient = append(p.Transient, rng.IntN(2) == 0)
			p.LoadWeight = append(p.LoadWeight, rng.Int64N(10))
		}
		for range machines {
			m := Machine{Neighbourhood: rng.Int32N(2), Location: rng.Int32N(3)}
			for range 2 {
				m.Capacity = append(m.Capacity, 12+rng.Int64N(8))
				m.Safe = append(m.Safe, 5+rng.Int64N(8))
			}
			for range machines {
				m.Move = append(m.Move, rng.Int64N(5))
			}
			p.Machines = append(p.Machines, m)
		}
		for v := range int32(3) {
			s := Service{Spread: rng.IntN(3)}
			if v > 0 && rng.IntN(2) == 0 {
				s.Needs = []int32{rng.Int32N(v)}
			}
			p.Services = append(p.Services, s)
		}
		for i := range 5 + rng.IntN(3) {
			p.Processes = append(p.Processes, Process{Service: int32(i % 3), Demand: []int64{1 + rng.Int64N(8), 1 + rng.Int64N(8)}, Move: rng.Int64N(5)})
			p.Start = append(p.Start, rng.Int32N(int32(machines)))
		}
		p.Balances = []Balance{{A: 0, B: 1, Target: 1 + rng.Int64N(2), Weight: rng.Int64N(5)}}
		p.index()
		if p.Check(p.Start) == nil {
			return p
		}
	}
}

// least is the least cost of all valid assignments.
func least(p *Problem) int64 {
	best := int64(math.MaxInt64)
	at := make([]int32, len(p.Start))
	var try func(i int)
	try = func(i int) {
		if i == len(at) {
			if c := p.Cost(at).Total(); c < best && p.Check(at) == nil {
				best = c
			}
			return
		}
		for m := range p.Machines {
			at[i] = int32(m)
			try(i + 1)
		}
	}
	try(0)
	return best
}

func TestEveryStepIsValidAndItsCostRight(t *testing.T) {
	for seed := range uint64(300) {
		p := random(rand.New(rand.NewPCG(seed, 1)))
		s := newAnnealer(p, seed)
		for range 200 {
			s.step(20)
			require.NoError(t, p.Check(s.at), "seed %d", seed)
			require.Equal(t, p.Cost(s.at).Total(), s.total, "seed %d", seed)
		}
		end := slices.Clone(s.at)
		s.reset(end)
		require.Equal(t, p.Cost(end).Total(), s.total, "seed %d", seed)

		at := slices.Clone(p.Start)
		for _, step := range p.Steps(end) {
			for _, i := range step {
				at[i] = end[i]
			}
			require.NoError(t, p.Check(at), "seed %d", seed)
		}
		require.Equal(t, end, at, "seed %d", seed)
	}
}

func TestSearchFindsTheLeast(t *testing.T) {
	missed := 0
	for seed := range uint64(12) {
		p := random(rand.New(rand.NewPCG(seed, 2)))
		found := Search(t.Context(), p, Options{Seed: 1, Steps: 100_000})
		require.NoError(t, p.Check(found))
		require.LessOrEqual(t, p.Cost(found).Total(), p.Cost(p.Start).Total())
		require.Equal(t, found, Search(t.Context(), p, Options{Seed: 1, Steps: 100_000}))
		if p.Cost(found).Total() > least(p) {
			missed++
		}
	}
	require.LessOrEqual(t, missed, 2) // an optimum that neither moves nor swaps reach
}

func TestSearchStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	p := random(rand.New(rand.NewPCG(1, 2)))
	calls := 0
	found := Search(ctx, p, Options{Seed: 1, Steps: 1 << 40, Watch: func(int, int64) { calls++; stop() }})
	require.NoError(t, p.Check(found))
	require.Equal(t, 1, calls)
}

// The start of each public instance costs what the challenge says.
func TestPublishedCosts(t *testing.T) {
	data := os.Getenv("SIGMA_DATA")
	if data == "" {
		t.Skip("SIGMA_DATA is not set")
	}
	for name, want := range map[string]int64{
		"a1_1": 49528750, "a1_2": 1061649570, "a1_3": 583662270, "a1_4": 632499600, "a1_5": 782189690,
		"a2_1": 391189190, "a2_2": 1876768120, "a2_3": 2272487840, "a2_4": 3223516130, "a2_5": 787355300,
	} {
		p, file, err := Read(unpacked(t, data, "model_"+name), unpacked(t, data, "assignment_"+name))
		require.NoError(t, err, "%s of %s", file, name)
		require.Equal(t, want, p.Cost(p.Start).Total(), name)
	}
}

func unpacked(t *testing.T, data, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join(data, "roadef2012-a", fmt.Sprintf("%s.txt.gz", name)))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	return string(text)
}
