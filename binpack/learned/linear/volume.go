package linear

import "math"

const (
	priorSD = .25 // ρ unless the policy states the accuracy of the forecast's total
	appCV   = .25 // least coefficient of variation of an app's count around its forecast
	maxCV   = 2.  // and the largest
	classCV = .05 // of a class of apps
	// chanceShare of the scatter explained by chance is subtracted from it: too
	// little trust in a forecast costs less than too much.
	chanceShare = .5
	// pseudoItems is the number of items of the whole mix with which a class begins
	// its estimate of the size of a request.
	pseudoItems = 3
	// minElapsed keeps the estimate arrivals ÷ elapsed share finite.
	minElapsed    = .02
	volumeClasses = 17
)

// volume estimates the whole volume from the forecast, the arrivals and the elapsed
// share t of the period. Apps are taken together by the size of their forecast, in
// powers of two: the arrivals of a single app predict future requests poorly, and
// apps that arrive in bursts are large.
// For a class k with forecast F_k (all in dominant shares of a machine) of which
// X_k has arrived in requests of B items of c,
//
//	u_k = Σ (B·c)² ÷ Σ B·c             size of a request, seen by an item
//	v_k = c²·Σ (m·c)² + (.05² + β²)·F_k²   variance of the class around G·F_k
//	w_k = F_k² ÷ (v_k + β²·F_k·(F − F_k) + (1−t)·u_k·F_k/t)
//	G   = (ρ⁻² + Σ w_k·X_k/(t·F_k)) ÷ (ρ⁻² + Σ w_k)
//	κ_k = G²·v_k ÷ (t·G²·v_k + (1−t)·u_k·G·F_k)
//	V   = Σ max(X_k, G·F_k + κ_k·(X_k − t·G·F_k))
//
// the linear Bayes estimate (credibility; Bühlmann 1967) of each class around a
// common factor G. c² is the scatter of the apps around their forecasts, see
// [volume.scatter]; the mean of n ÷ m exceeds 1 by about β = c² − .25² where m is
// noise. Class 0 is the apps without forecast: X_0 ÷ t.
type volume struct {
	rho     float64
	classOf []uint8
	classes [volumeClasses]volumeClass

	forecast        []int64 // [app] m_a, itemBits
	seen            []int64 // [app] n_a
	forecastSquares float64 // Σ m_a² in 2⁻²⁰, whole numbers
}

// A volumeClass holds apps whose forecasts are of similar size. Shares are
// dominant ones, in 2⁻¹⁰ machines.
type volumeClass struct {
	apps          int       // with a forecast
	machines      []float64 // [dimension] the forecast in reference machines
	mass          float64   // Σ m_a
	massSquares   float64   // Σ m_a²
	share, square float64   // Σ m_a·c_a, Σ (m_a·c_a)²

	arrived            []int64 // [dimension] itemBits+shareBits
	items, itemSquares int64   // Σ B, Σ B²
	squares            int64   // Σ n_a² over the apps with a forecast
	cross              int64   // Σ n_a·m_a over them, itemBits
	came, cameSquares  int64   // Σ B·c, Σ (B·c)²
}

func newVolume(d *demand, rho float64) *volume {
	n, dims := len(d.dominant), len(d.share)
	v := &volume{rho: rho, classOf: make([]uint8, n), forecast: make([]int64, n), seen: make([]int64, n)}
	for k := range v.classes {
		v.classes[k].machines, v.classes[k].arrived = make([]float64, dims), make([]int64, dims)
	}
	for a := range v.classOf {
		m := d.expected(int32(a))
		v.forecast[a] = int64(math.Round(max(0, m) * (1 << itemBits)))
		if v.forecast[a] == 0 { // also where it is too small for sums of it to be finite
			continue
		}
		_, exponent := math.Frexp(m)
		v.classOf[a] = uint8(min(volumeClasses-1, max(1, exponent+3)))
		v.forecastSquares += float64(v.forecast[a]) * float64(v.forecast[a])
		k := &v.classes[v.classOf[a]]
		share := m * float64(d.coarse(int32(a)))
		k.apps++
		k.mass += m
		k.massSquares += float64(m * m)
		k.share += share
		k.square += float64(share * share)
		for i := range k.machines {
			k.machines[i] += float64(m * float64(d.share[i][a]) / (1 << shareBits))
		}
	}
	return v
}

// reset clears the arrivals.
func (v *volume) reset() {
	clear(v.seen)
	for k := range v.classes {
		c := &v.classes[k]
		clear(c.arrived)
		c.items, c.itemSquares, c.squares, c.cross, c.came, c.cameSquares = 0, 0, 0, 0, 0, 0
	}
}

// add counts n items of app a. squares is the sum of the squared sizes of the
// requests in which they arrived.
func (v *volume) add(d *demand, a int32, n, squares int64) {
	k := &v.classes[v.classOf[a]]
	c := d.coarse(a)
	k.items += n
	k.itemSquares += squares
	k.came += n * c
	k.cameSquares += squares * c * c
	for i := range k.arrived {
		k.arrived[i] += n << itemBits * d.share[i][a]
	}
	if v.forecast[a] > 0 {
		have := v.seen[a]
		v.seen[a] += n
		k.squares += v.seen[a]*v.seen[a] - have*have
		k.cross += n * v.forecast[a]
	}
}

// scatter is c², how far the apps' counts are from their forecasts, by the
// method of moments:
//
//	c² = (Σ (n_a − r·m_a)² − ½·chance) ÷ Σ (r·m_a)², r = Σ n_a ÷ Σ m_a
//	chance = (1−t)·r·Σ b_k·m_a, b_k = Σ B² ÷ Σ B
//
// the scatter around the common ratio, less half of the part explained by the
// random arrival of requests alone.
func (v *volume) scatter(t float64) float64 {
	items, itemSquares, mass := 0.0, 0.0, 0.0
	squares, cross := int64(0), int64(0)
	for k := 1; k < volumeClasses; k++ {
		squares += v.classes[k].squares
		cross += v.classes[k].cross
		items += float64(v.classes[k].items)
		itemSquares += float64(v.classes[k].itemSquares)
		mass += v.classes[k].mass
	}
	if items == 0 {
		return appCV * appCV
	}
	chance := 0.0
	for k := 1; k < volumeClasses; k++ {
		c := &v.classes[k]
		batch := (float64(c.itemSquares) + pseudoItems*itemSquares/items) / (float64(c.items) + pseudoItems)
		chance += float64(batch * c.mass)
	}
	const unit = 1 << itemBits
	r := items / mass
	chance *= (1 - t) * r
	own := r * r * v.forecastSquares / (unit * unit)
	around := float64(squares) - float64(2*r*float64(cross)/unit) + own
	return min(maxCV*maxCV, max(appCV*appCV, (around-chanceShare*chance)/own))
}

// estimate gives V per dimension, in reference machines, and its relative standard
// deviation. Arrivals of apps without a forecast are divided by elapsed.
func (v *volume) estimate(t, elapsed float64, out []float64) (sd float64) {
	came, cameSquares, share, mass, square := 0.0, 0.0, 0.0, 0.0, 0.0
	for k := range v.classes {
		c := &v.classes[k]
		came += float64(c.came)
		cameSquares += float64(c.cameSquares)
		share += c.share
		square += c.square
		mass += c.mass
	}
	clear(out)
	if came == 0 {
		for k := range v.classes {
			for i, m := range v.classes[k].machines {
				out[i] += m
			}
		}
		return v.rho
	}
	t = min(1, max(t, 1./512))
	c2 := v.scatter(t)
	bias := c2 - appCV*appCV
	common := classCV*classCV + float64(bias*bias)
	// The factor's own variance: ρ is of the total, in which the apps' scatter is.
	scattered := 0.0
	if share > 0 {
		scattered = appCV * appCV * square / share / share
	}
	own := max(0, v.rho*v.rho-scattered)
	prior := pseudoItems * share / max(1, mass)
	var brings, variance [volumeClasses]float64
	sum, weights := 0.0, 0.0
	for k := 1; k < volumeClasses; k++ {
		c := &v.classes[k]
		if c.share == 0 {
			continue
		}
		brings[k] = (float64(c.cameSquares) + float64(prior*cameSquares/came)) / (float64(c.came) + prior)
		variance[k] = float64(c2*c.square) + float64(common*c.share*c.share)
		w := c.share * c.share / (variance[k] + float64(bias*bias*c.share*(share-c.share)) + (1-t)*brings[k]*c.share/t)
		weights += w
		sum += float64(w * float64(c.came) / (t * c.share))
	}
	g := (1 + float64(own*sum)) / (1 + float64(own*weights))
	whole, spread, lever := 0.0, 0.0, 0.0
	for k := 1; k < volumeClasses; k++ {
		c := &v.classes[k]
		if c.share == 0 {
			continue
		}
		around := g * g * variance[k]
		follow := around / (float64(t*around) + float64((1-t)*brings[k]*g*c.share))
		for i, m := range c.machines {
			arrived := machinesOf(c.arrived[i])
			out[i] += max(arrived, float64(g*m)+float64(follow*(arrived-float64(t*g*m))))
		}
		whole += max(float64(c.came), float64(g*c.share)+float64(follow*(float64(c.came)-float64(t*g*c.share))))
		spread += float64(around * (1 - follow*t))
		lever += float64(c.share * (1 - follow*t))
	}
	c := &v.classes[0]
	for i, a := range c.arrived {
		out[i] += machinesOf(a) / elapsed
	}
	whole += float64(c.came) / elapsed
	spread += (1 - t) * float64(c.cameSquares) / elapsed / elapsed
	sd = math.Sqrt(spread+float64(lever*lever*own/(1+own*weights))) / whole
	if exact := v.rho * v.rho; exact < scattered {
		// The total is known better than from factor and scatter.
		sdTotal := math.Sqrt(exact * scattered / (scattered - exact))
		for i := range out {
			total := 0.0
			for k := range v.classes {
				total += v.classes[k].machines[i]
			}
			out[i], _ = weigh(total, sdTotal, out[i], sd)
		}
		_, sd = weigh(0, sdTotal, 0, sd)
	}
	return sd
}

// weigh combines two estimates by their precision; an exact one counts alone.
func weigh(a, sdA, b, sdB float64) (v, sd float64) {
	varA, varB := sdA*sdA, sdB*sdB
	sum := varA + varB
	if sum == 0 {
		return a, 0
	}
	return (float64(a*varB) + float64(b*varA)) / sum, math.Sqrt(varA * varB / sum)
}
