package binpack

// MaxValue is the largest single capacity or demand, in units of its
// dimension, that an [Instance] may hold. It keeps every sum over at most 2¹²
// values below 2⁶²; sums over more values use wider arithmetic.
const MaxValue = int64(1) << 50

// MaxDimensions is the largest number of dimensions of an [Instance].
const MaxDimensions = 200

// Unlimited is the Count of a machine line without an upper bound.
const Unlimited = -1

// An Instance is everything that is fixed before the first request: the
// dimensions, the machines that exist or may be opened, the applications and
// the rules between their groups. After [NewState] only [State.AddApp] and
// [State.AddRules] change it.
type Instance struct {
	Dimensions []Dimension
	Types      []string      // names of machine types; MachineLine.Type is an index
	Fleet      Fleet         //
	Machines   []MachineLine // in file order, which is position order
	Groups     []Group       // limits and rules count per group
	Apps       []App         //
	Rules      []Rule        // about a machine
	ZoneRules  []Rule        // about a zone
	Pairs      []Pair        // of apps with traffic between them
	// MaxShareOfApp is as in [Care], for policies that do not state it; 0 = 1, no limit.
	MaxShareOfApp float64
}

// A Dimension is one resource.
type Dimension struct {
	Name string
	// Unit is the suffix of the unit in which all amounts of this dimension
	// are whole numbers: "", "m", "u" or "n", the largest that does.
	Unit string
	// One is the number of units in an amount of 1: 1, 10³, 10⁶ or 10⁹.
	One int64
	// Device marks a dimension whose capacity is a number of devices of size
	// One. A demand of at least One takes that many entirely free devices, a
	// smaller one takes a share of a single device.
	Device bool
}

// Fleet is the rule for which machines may be used.
type Fleet uint8

const (
	// Fixed fleets have exactly the listed machines; an item that does not fit is unplaced.
	Fixed Fleet = iota
	// Open fleets offer the machines that hold an item and one empty machine
	// of each kind.
	Open
)

func (f Fleet) String() string {
	if f == Open {
		return "open"
	}
	return "fixed"
}

// A MachineLine is one line of machines.csv: Count identical machines.
type MachineLine struct {
	Name     string
	Type     int32   // index into Instance.Types
	Count    int     // Unlimited in open fleets only
	Cost     float64 // of one machine
	Capacity []int64 // per dimension, in units
	Zone     string  // "" = no zone: it takes no items that [ZoneLimits] bind
}

// A Group is a set of apps whose items are counted together by limits, spread
// and rules. Most groups hold one app.
type Group struct {
	Name      string
	Limit     int32 // items per machine; 0 = no limit
	SpreadMin int32 // distinct machines before any machine takes a second; 0 or 1 = no spread
	Zone      ZoneLimits
}

// An App is a set of items with equal demand.
type App struct {
	Name     string
	Group    int32
	Types    []int32 // allowed machine types, ascending; nil = all
	Demand   []int64 // per dimension, in units
	Expected float64 // items alive at the same time, as forecast; negative = not given
	Lifetime float64 // mean seconds, as forecast; negative = not given
	Soft     []SoftTerm
	// Declared is the number of items that a share of the app refers to, see [Care]; 0 =
	// Expected, negative = nothing declares items of it, and no share counts.
	Declared float64
}

// A Rule (A, B, Max) forbids a placement after which a machine, or a zone, holds at least
// one item of group A and more than Max items of group B. A and B differ.
type Rule struct {
	A, B int32
	Max  int32
}
