package savings

import (
	"fmt"
	"math"
)

// monthHours is the length of a month, 365 days ÷ 12.
const monthHours = 730

// Cents are hundredths of the currency, or of the unit of the linear model.
type Cents int64

// MarshalJSON writes an amount with two digits after the point.
func (c Cents) MarshalJSON() ([]byte, error) { return []byte(c.String()), nil }

func (c Cents) String() string {
	sign, n := "", int64(c)
	if n < 0 {
		sign, n = "-", -n
	}
	return fmt.Sprintf("%s%d.%02d", sign, n/100, n%100)
}

// mostCents bounds an amount, so that sums of many do not overflow.
const mostCents = 1e15

// aMonth is the money of a month of a cost an hour.
func aMonth(hourly float64) Cents {
	return Cents(max(-mostCents, min(mostCents, math.Round(hourly*monthHours*100))))
}

// A Bill is the cost of a cluster, and the share of it that each cause of waste has.
// Cost.Now = the sum of the steps' means + Rest + Cost.Floor, to the cent.
type Bill struct {
	Currency   string           `json:"currency"` // "" = costs are of the linear model, and no money
	MonthHours int              `json:"month_hours"`
	Cost       Cost             `json:"cost"`
	Requested  Amounts          `json:"requested"`
	Used       *Used            `json:"used"` // nil = unknown
	Steps      []Step           `json:"steps"`
	Rest       Cents            `json:"rest"`
	Constraint []ConstraintCost `json:"constraints"`
	Batch      *Batch           `json:"batch"` // nil = unknown
	Pending    []Pending        `json:"pending"`
	Pinned     []Pinned         `json:"pinned"`
	LeftOut    []LeftOut        `json:"left_out"` // pods that are in no other count
	Excluded   []Excluded       `json:"excluded_nodes"`
	Namespaces []Namespace      `json:"namespaces"`
	Missing    []string         `json:"missing"` // kinds of objects that were not read
	Prices     Prices           `json:"prices"`
	Month      *Month           `json:"month"`    // nil = none was asked for, or no pods were read
	Snapshot   string           `json:"snapshot"` // the command that writes the trace of the commands; "" = it exists

	name     string
	nodes    int
	pods     int
	unknown  int      // pods that Used lacks
	have     Amounts  // that the nodes have for pods
	binds    string   // the resource that the floor is of
	unplaced []string // policies that leave pods out
	source   Source
	notes    []string
}

// Cost of a month. No placement of the same pods, with the sizes and nodes of the last step, costs less than the floor.
type Cost struct {
	Now   Cents `json:"now"`
	Floor Cents `json:"floor"`
}

// Amounts of cores and bytes.
type Amounts struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
}

// Used amounts of cores and bytes; 0 = not measured.
type Used struct {
	CPU    float64 `json:"cpu,omitzero"`
	Memory float64 `json:"memory,omitzero"`
}

// A Step is a cause of waste with the money that a remedy saves after the steps before it.
type Step struct {
	Cause string `json:"cause"` // moves, packing, usage or shapes
	// AnyType is true of the shapes with instance types that the cluster does not have.
	AnyType bool    `json:"any_type,omitempty"`
	Nodes   float64 `json:"nodes"` // fewer
	Money   *Money  `json:"money"` // nil = unknown
	Bound   Cents   `json:"bound"` // no remedy of this kind saves more
	Risk    string  `json:"risk"`
	Command string  `json:"command"`
	// Prints is the money that the command prints. Of a step by use that is the saving on the state after the moves, and of a
	// plan the difference of two plans, which may be more than the money: the step before packs better than a plan.
	Prints Cents `json:"command_prints"`
	// Remove has the nodes that hold no pods to move now: cordoned ones and those that are not well among them.
	Remove []string `json:"remove,omitempty"`

	text     string
	advice   string // on a setting; "" = none
	deletion string // the command that removes its nodes; "" = none
}

// name is the cause, with a name of its own for that of other instance types.
func (s *Step) name() string {
	if s.AnyType {
		return "types"
	}
	return s.Cause
}

// Money is a mean over orders of arrival with the ends of its 95 % interval, which are equal where there are no orders.
type Money struct {
	Mean Cents `json:"mean"`
	Low  Cents `json:"low"`
	High Cents `json:"high"`
}

// A ConstraintCost is the money that a plan saves without a constraint. It is not a part of the bill: the plan breaks it.
type ConstraintCost struct {
	Kind  string `json:"kind"`
	What  string `json:"what"` // a name, which commands take
	Nodes int    `json:"nodes"`
	Money Cents  `json:"money"`
	Bound Cents  `json:"bound"` // no plan without it saves more

	Command string `json:"command"`
	Prints  Cents  `json:"command_prints"` // as that of a step
}

// Pending are pods that wait for the same reason.
type Pending struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
	First  string `json:"first"`
}

// LeftOut are pods that are in no step for the same reason.
type LeftOut struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
	First  string `json:"first"`
}

// Prices are the sources of the nodes' prices.
type Prices struct {
	Nodes map[string]int `json:"nodes"` // by source
	Lists []string       `json:"lists"` // built in, each with its date, region and factors
}

// Pinned are pods that must not move for the same reason.
type Pinned struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
	First  string `json:"first"`
}

// An Excluded node has a share of the bill, and no room for pods or a reason to stay.
type Excluded struct {
	Node   string `json:"node"`
	Reason string `json:"reason"`
	Money  Cents  `json:"money"`
	Takes  bool   `json:"takes_pods,omitzero"`
}

// fixedMoney is money without an interval.
func fixedMoney(c Cents) *Money { return &Money{c, c, c} }

// A Namespace has a share of the bill.
type Namespace struct {
	Namespace string     `json:"namespace"`
	Share     Cents      `json:"money"`
	Requested Amounts    `json:"requested"`
	Used      *Used      `json:"used"`
	Saves     *Cents     `json:"saves"`
	Workloads []Workload `json:"workloads"`
}

// A Workload has a share of the bill.
type Workload struct {
	Name      string  `json:"workload"`
	Pods      int     `json:"pods"`
	Share     Cents   `json:"money"`
	Requested Amounts `json:"requested"`
	Used      *Used   `json:"used"`
	Saves     *Cents  `json:"saves"`
}
