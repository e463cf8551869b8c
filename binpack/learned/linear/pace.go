package linear

import "math"

const (
	// scatterGuess and scatterError are the prior of c² before any arrival.
	scatterGuess, scatterError = .06, .5
	// scatterDoubt is the part of c² that is added to the error of the share: the counts of
	// apps that are far from their forecasts are no guide to the remainder.
	scatterDoubt = .5
	// leastSpread keeps the weight of a class finite when every app is complete.
	leastSpread = .02
	paceSteps   = 4
)

// pace estimates the elapsed share t of a period that no clock shows. In a random order of
// arrival n_a scatters around its share of the app's count N_a less and less, as in any sample
// without replacement. With N_a = G·m_a, of which r = Σ n_a ÷ Σ m_a = t·G has arrived:
//
//	E (n_a − r·m_a)² = (1−t)·r·b·m_a + c²·(r·m_a)²
//
// b = Σ B² ÷ Σ B is the size of the request that an item arrives in and c² the scatter of N_a
// around G·m_a. In units of the first term without its factor, r·b·m_a, this is a straight line
// per class:
//
//	y = Σ (n_a − r·m_a)² ÷ (r·b·Σ m_a) = (1−t) + c²·x,  x = r·Σ m_a² ÷ (b·Σ m_a)
//
// It is fitted by weighted least squares, where the variance of y over A apps with f =
// (1−t) + c²·x is f²·(2 + b·A ÷ (f·r·Σ m_a)) ÷ A. The result is weighed against r, the
// share if the forecast is right in all: its standard error is ρ·r. Arrivals that are less
// even than a random order gives favour t = 0 and a large c², so that r counts alone.
// relative is the standard error of t as a share of it.
func (v *volume) pace() (t, relative float64) {
	items, itemSquares, mass := 0.0, 0.0, 0.0
	for k := 1; k < volumeClasses; k++ {
		items += float64(v.classes[k].items)
		itemSquares += float64(v.classes[k].itemSquares)
		mass += v.classes[k].mass
	}
	if items == 0 {
		return 0, v.rho
	}
	r := items / mass
	var x, y, batches [volumeClasses]float64
	for k := 1; k < volumeClasses; k++ {
		c := &v.classes[k]
		if c.mass == 0 {
			continue
		}
		const unit = 1 << itemBits
		b := (float64(c.itemSquares) + float64(pseudoItems*itemSquares/items)) / (float64(c.items) + pseudoItems)
		spread := float64(c.squares) - float64(2*r*float64(c.cross)/unit) + float64(r*r*c.massSquares)
		x[k] = r * c.massSquares / (b * c.mass)
		y[k] = max(0, spread) / (r * b * c.mass)
		batches[k] = b * float64(c.apps) / (r * c.mass)
	}
	left, c2, variance := max(leastSpread, 1-r), scatterGuess, 0.0
	for range paceSteps {
		weights, sumX, sumY := 0.0, 0.0, 0.0
		xx := 1 / (scatterError * scatterError)
		xy := xx * scatterGuess
		for k := 1; k < volumeClasses; k++ {
			if v.classes[k].mass == 0 {
				continue
			}
			f := max(leastSpread, left+float64(c2*x[k]))
			w := float64(v.classes[k].apps) / (f * (float64(2*f) + batches[k]))
			weights += w
			sumX += float64(w * x[k])
			sumY += float64(w * y[k])
			xx += float64(w * x[k] * x[k])
			xy += float64(w * x[k] * y[k])
		}
		det := float64(weights*xx) - float64(sumX*sumX)
		left = min(1, max(0, (float64(sumY*xx)-float64(sumX*xy))/det))
		c2 = max(0, (xy-float64(left*sumX))/xx)
		variance = xx / det
	}
	doubt := scatterDoubt * c2
	t, sd := weigh(r, v.rho*r, 1-left, math.Sqrt(variance+float64(doubt*doubt)))
	t = min(1, max(t, 1./512))
	return t, sd / t
}

// grow adds an app without a forecast.
func (v *volume) grow() {
	v.classOf, v.forecast, v.seen = append(v.classOf, 0), append(v.forecast, 0), append(v.seen, 0)
}
