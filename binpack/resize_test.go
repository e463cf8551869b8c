package binpack_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A state whose apps were resized is the state of the new demands with the same items.
func TestResizeIsTheStateOfTheNewDemands(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		dims := []int{1, 2, 3, 60}[seed%4]
		inst := func() *binpack.Instance {
			i := &binpack.Instance{Types: []string{"n"}, Fleet: binpack.Fleet(seed % 2)}
			line := binpack.MachineLine{Name: "n", Count: 40, Cost: 1}
			for range dims {
				i.Dimensions = append(i.Dimensions, binpack.Dimension{Name: "d", One: 1})
				line.Capacity = append(line.Capacity, 100)
			}
			i.Machines = []binpack.MachineLine{line}
			return i
		}
		small, large := inst(), inst()
		draw := func() (d []int64) {
			for range dims {
				d = append(d, rng.Int64N(30))
			}
			return d
		}
		for a := range int32(6) {
			group := a / 2
			for _, i := range []*binpack.Instance{small, large} {
				if int(group) == len(i.Groups) {
					i.Groups = append(i.Groups, binpack.Group{Name: "g"})
				}
				i.Apps = append(i.Apps, binpack.App{Name: "a", Group: group, Demand: draw()})
			}
		}
		s, want := binpack.NewState(small), binpack.NewState(large)
		for range 60 {
			item := binpack.Item{App: rng.Int32N(6)}
			m, err := s.Choose(sameScore{}, item)
			if err != nil {
				continue
			}
			s.Place(item, m, nil)
			line, index := s.Position(m)
			want.Book(item.App, want.MachineAt(line, index))
		}
		for a := range int32(6) {
			s.Resize(a, large.Apps[a].Demand)
		}
		require.Equal(t, s.Size(), want.Size())
		for d := range dims {
			require.Equal(t, want.Free(d), s.Free(d), "seed %d", seed)
		}
		for a := range int32(6) {
			assert.Equal(t, want.Feasible(a, nil), s.Feasible(a, nil), "seed %d", seed)
			x, errX := want.Choose(sameScore{}, binpack.Item{App: a})
			y, errY := s.Choose(sameScore{}, binpack.Item{App: a})
			assert.Equal(t, errX, errY)
			assert.Equal(t, x, y, "seed %d", seed)
		}
	}
}

type sameScore struct{}

func (sameScore) Score(_ binpack.Item, _ []int32, out []float64) { clear(out) }
