package population

import "math"

// wasteTable holds the expected waste of a machine in the end when it is offered a
// number of items of random sizes, each of which may be refused:
//
//	W(r, 0) = r
//	W(r, m) = W(r, m−1) + Σ_s p_s · min(0, W(r−s, m−1) − W(r, m−1))
//
// with r the free amount and p the distribution of sizes, in levels. The table has
// m = 0, 1, 2, 4, … From 4 on one implicit step leads to each of them,
//
//	W'(r) = (W(r) + Δ·Σ p_s·W'(r−s)) ÷ (1 + Δ·Σ p_s)  over s with W'(r−s) < W'(r),
//
// which is stable at any Δ. Amounts are integers, so that equal states give equal
// scores on all processors.
type wasteTable struct {
	levels int
	least  int // the smallest size; a free amount below it is lost
	// waste[r*wasteRow + j] is W(r, 0) for j = 0, W(r, 2^(j−1)) above, in
	// hundredths of the largest machine.
	waste []float64
	// Scratch of make.
	share []int64 // p in 1/wasteOne
	old   []int64
	cur   []int64
}

const (
	wasteSteps = 11 // up to 1,024 items
	wasteRow   = wasteSteps + 1
	wasteExact = 4 // items up to which the recursion goes one by one
	wasteBits  = 20
	wasteOne   = 1 << wasteBits
)

// make fills the table for a distribution of sizes, p[s] for s = 1 … levels.
func (t *wasteTable) make(p []float64) {
	n := len(p) - 1
	t.levels = n
	t.waste = resize(t.waste, (n+1)*wasteRow)
	t.share, t.old, t.cur = resize(t.share, n+1), resize(t.old, n+1), resize(t.cur, n+1)
	t.least = n + 1
	most := 0
	for s := range p {
		t.share[s] = int64(math.Round(p[s] * wasteOne))
		if t.share[s] > 0 {
			t.least, most = min(t.least, s), s
		}
	}
	scale := 100 / (float64(n) * wasteOne)
	for r := range t.cur {
		t.cur[r], t.old[r] = int64(r)*wasteOne, int64(r)*wasteOne
		t.waste[r*wasteRow] = float64(t.cur[r]) * scale
	}
	items := int64(0)
	for j := 1; j < wasteRow; j++ {
		for delta := int64(0); items < 1<<(j-1); items += delta {
			delta = 1
			if items >= wasteExact {
				delta = items
			}
			t.step(most, delta)
		}
		for r := range t.cur {
			t.waste[r*wasteRow+j] = float64(t.cur[r]) * scale
		}
	}
}

// step is one step of the recursion for all r, or for delta items the implicit one.
func (t *wasteTable) step(most int, delta int64) {
	if delta == 1 {
		for r := t.levels; r >= t.least; r-- { // W(r − s) is still that of before
			old := t.cur[r]
			gain, _ := t.taken(r, most, old)
			t.cur[r], t.old[r] = old+gain>>wasteBits, old
		}
		return
	}
	for r := t.least; r <= t.levels; r++ {
		// Which sizes are taken depends on the result, so it is guessed: it falls as at
		// the last step. A wrong guess costs little, since the result is least at the
		// right one.
		old := t.cur[r]
		v := old
		if t.old[r] > 0 {
			v = old * old / t.old[r]
		}
		gain, share := t.taken(r, most, v)
		t.cur[r], t.old[r] = v+((old-v)*wasteOne+delta*gain)/(wasteOne+delta*share), old
	}
}

// taken are the sizes s with W(r − s) < v: Σ p_s·(W(r − s) − v) and Σ p_s.
func (t *wasteTable) taken(r, most int, v int64) (gain, share int64) {
	p := t.share[t.least : min(r, most)+1]
	rest := t.cur[r-t.least-len(p)+1 : r-t.least+1]
	for i, p := range p {
		d := rest[len(rest)-1-i] - v
		less := d >> 63 // all ones where it is less
		gain += p * (d & less)
		share += p & less
	}
	return gain, share
}

// at returns W(r, m), linear between the points of the table.
func (t *wasteTable) at(r int, m float64) float64 {
	row := t.waste[r*wasteRow : r*wasteRow+wasteRow]
	if m < 1 {
		return row[0] + float64(m*(row[1]-row[0]))
	}
	if m >= 1<<(wasteSteps-1) {
		return row[wasteRow-1]
	}
	b := math.Float64bits(m)
	j := int(b>>52) - 1022 // m = 2^(j−1) · (1 + f)
	f := math.Float64frombits(b&(1<<52-1)|1023<<52) - 1
	return row[j] + float64(f*(row[j+1]-row[j]))
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// sizeEstimate is the distribution of sizes 1 … levels after counts of items
// were seen, as p[s]: the counts and base items of a base measure,
//
//	p_s = (n_s + base·b_s) ÷ (N + base),  b_s = (n'_s + prior·u_s) ÷ (N + prior)
//
// with n' the counts smoothed by a triangle that reaches a thirtieth of the
// largest machine to each side, and u uniform from low to high.
func sizeEstimate(counts []int64, base, prior float64, low, high int, p []float64) {
	n := len(counts) - 1
	total := int64(0)
	from, to := low, high
	for s, c := range counts {
		if c > 0 {
			total += c
			from, to = min(from, s), max(to, s)
		}
	}
	clear(p)
	reach := max(1, n/30)
	for s, c := range counts {
		if c == 0 {
			continue
		}
		// The part of the triangle that lies among the possible sizes.
		sum := 0
		for d := max(from-s, -reach); d <= min(to-s, reach); d++ {
			sum += reach + 1 - max(d, -d)
		}
		unit := float64(c) / float64(sum)
		for d := max(from-s, -reach); d <= min(to-s, reach); d++ {
			p[s+d] += float64(unit * float64(reach+1-max(d, -d)))
		}
	}
	uniform := prior / float64(high-low+1)
	for s := range p {
		b := p[s]
		if s >= low && s <= high {
			b += uniform
		}
		p[s] = (float64(counts[s]) + float64(base*(b/(float64(total)+prior)))) / (float64(total) + base)
	}
}
