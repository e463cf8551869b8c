package binpack

import (
	"math"
	"testing"
)

// Explain names what preferences did: three machines, of which the scorer likes the third best
// (score = position) and the second and third hold items of the app.
func TestExplainPreferences(t *testing.T) {
	for _, c := range []struct {
		name  string
		care  Care
		want  Preferences
		first int32 // chosen
		alone int32 // -1 = the chosen one
	}{
		// Scores 0, 1, 2; soft scores 100, 0, 0.
		{"keep", Care{}, Preferences{Kept: 1, Soft: 100, Best: 100, Price: 2}, 0, 2},
		// 0+.5·100 is above 1 and 2.
		{"trade", Care{Mode: SoftTrade, Price: .5}, Preferences{Kept: 3, Soft: 100, Best: 100, Price: 2}, 0, 2},
		{"too cheap", Care{Mode: SoftTrade, Price: .01}, Preferences{Kept: 3, Best: 100}, 2, -1},
		{"ignore", Care{Mode: SoftIgnore}, Preferences{Kept: 3, Best: 100}, 2, -1},
		// ⌈.5·3⌉ = 2 items a machine: the third has them; soft scores of the others 100 and 0.
		{"share", Care{Mode: SoftIgnore, MaxShareOfApp: .5}, Preferences{Kept: 2, Limit: 2, Best: 100, Price: 1}, 1, 2},
	} {
		s := NewState(&Instance{
			Dimensions: []Dimension{{Name: "cpu", One: 1}}, Types: []string{""}, Groups: []Group{{Name: "a"}},
			Machines: []MachineLine{{Name: "m", Count: 3, Capacity: []int64{9}}},
			Apps:     []App{{Name: "a", Demand: []int64{1}, Soft: []SoftTerm{{Kind: Apart, Weight: 100}}}},
		})
		s.Declared, s.Care = []float64{3}, c.care
		for _, m := range []int32{1, 2, 2} {
			s.Place(Item{}, m, nil)
		}
		e, err := s.Explain(ascending{}, ascending{}, Item{}, []int32{0, 1, 2})
		if err != nil {
			t.Fatal(err)
		}
		p, alone := e.Preferences, int32(-1)
		if p.Alone != nil {
			alone = p.Alone.Machine
		}
		got := Preferences{Kept: p.Kept, Limit: p.Limit, Soft: p.Soft, Best: p.Best, Price: p.Price}
		if e.Chosen.Machine != c.first || alone != c.alone || !samePreferences(got, c.want) || s.Care != c.care || len(p.Terms) != 1 || p.Terms[0].Score != p.Soft {
			t.Errorf("%s: machine %d, %+v, alone %d\nwant %d, %+v, alone %d", c.name, e.Chosen.Machine, *p, alone, c.first, c.want, c.alone)
		}
		sum := 0.
		for _, term := range e.Chosen.Terms {
			sum += term.Contribution
		}
		if math.Abs(sum-e.Chosen.Score) > 1e-12 {
			t.Errorf("%s: terms add up to %v, the score is %v", c.name, sum, e.Chosen.Score)
		}
	}
}

func samePreferences(a, b Preferences) bool {
	return a.Kept == b.Kept && a.Limit == b.Limit && a.Soft == b.Soft && a.Best == b.Best && a.Price == b.Price
}

// ascending likes later machines more.
type ascending struct{}

func (ascending) Score(_ Item, candidates []int32, out []float64) {
	for i, m := range candidates {
		out[i] = float64(m)
	}
}

func (ascending) Explain(_ Item, m int32) []Term {
	return []Term{{Name: "position", Weight: 1, Value: float64(m), Contribution: float64(m)}}
}
