package defrag

import "slices"

// withinLimits reports whether the whole sequence keeps the budget, and the caps per app.
func (s *search) withinLimits() bool {
	if s.paid > s.opt.Budget+1e-9 {
		return false
	}
	if s.opt.AppShare >= 1 && s.opt.Caps == nil {
		return true
	}
	moved, seen := make([]int32, len(s.cap)), map[int32]bool{}
	for _, m := range s.sequence {
		if m.from >= 0 && !seen[m.item] {
			seen[m.item] = true
			if app := s.items[m.item].App; moved[app] >= s.cap[app] {
				return false
			} else {
				moved[app]++
			}
		}
	}
	return true
}

// capped reports whether more items of an app than may still move would leave a machine for the first
// time if it were emptied.
func (s *search) capped(m int32) (over bool) {
	if s.opt.AppShare >= 1 && s.opt.Caps == nil {
		return false
	}
	for _, i := range s.on[m] {
		if app := s.items[i].App; s.origin[i] == m {
			s.moved[app]++
			over = over || s.moved[app] > s.cap[app]
		}
	}
	for _, i := range s.on[m] {
		if s.origin[i] == m {
			s.moved[s.items[i].App]--
		}
	}
	return over
}

// priceOf is the price of all items on a machine; ok is false if one of them must stay.
func (s *search) priceOf(m int32) (price float64, ok bool) {
	return s.load[m].price, s.load[m].fixed == 0
}

// count adds sign items like one to the load of a machine.
func (s *search) count(i, m int32, sign int32) {
	it, l := &s.items[i], &s.load[m]
	l.price += float64(sign) * it.Price
	if it.Fixed {
		l.fixed += sign
	}
	if m == s.origin[i] {
		l.firstPrice += float64(sign) * it.Price
	}
}

// leastPrices are the prices of all items of the machines that can be emptied, ascending.
func (s *search) leastPrices() (prices []float64) {
	for _, m := range s.machines {
		if price, ok := s.priceOf(m); ok && len(s.on[m]) > 0 {
			prices = append(prices, price)
		}
	}
	slices.Sort(prices)
	return prices
}
