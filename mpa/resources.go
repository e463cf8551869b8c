package mpa

// Resources of a container.
type Resources struct {
	CPU    int64 `json:"cpu"`    // millicores
	Memory int64 `json:"memory"` // bytes
}

// Add is the sum of two amounts.
func (r Resources) Add(o Resources) Resources { return Resources{r.CPU + o.CPU, r.Memory + o.Memory} }

// Min and Max work on each resource.
func (r Resources) Min(o Resources) Resources {
	return Resources{min(r.CPU, o.CPU), min(r.Memory, o.Memory)}
}

// Max is the larger of each resource.
func (r Resources) Max(o Resources) Resources {
	return Resources{max(r.CPU, o.CPU), max(r.Memory, o.Memory)}
}

// mostAmount bounds amounts, for sums and conversions.
const mostAmount = 1e14

// Amount converts a float; NaN and larger values become the largest amount.
func Amount(v float64) int64 {
	if !(v < mostAmount) {
		return mostAmount
	}
	return int64(v)
}

// Scale is an amount times a factor.
func Scale(v int64, f float64) int64 { return Amount(float64(v) * f) }
