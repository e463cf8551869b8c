package rule

import "github.com/sigma-scheduler/sigma/binpack"

// Random takes any machine that fits, each with equal chance. The draw is a
// hash of seed, item and machine position, so a decision can be made again.
type Random struct {
	blind

	Seed uint64
}

// Scorer prepares the policy for a state.
func (p Random) Scorer(s *binpack.State) binpack.Scorer { return random{s, p.Seed} }

type random struct {
	state *binpack.State
	seed  uint64
}

func (p random) Score(item binpack.Item, candidates []int32, out []float64) {
	for i, m := range candidates {
		out[i] = draw(p.state, p.seed, item, m)
	}
}

// draw is a number in [0, 1) that depends on seed, item and machine position
// alone. It has 44 bits, so that a whole number up to 255 can be added exactly.
func draw(s *binpack.State, seed uint64, item binpack.Item, m int32) float64 {
	line, index := s.Position(m)
	h := Mix(seed + 0x9e3779b97f4a7c15)
	h = Mix(h ^ item.Serial)
	h = Mix(h ^ (uint64(uint32(line))<<32 | uint64(uint32(index))))
	return float64(h>>20) / (1 << 44)
}

// Mix is the finaliser of splitmix64 (Steele, Lea and Flood 2014).
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
