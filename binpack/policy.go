package binpack

import "errors"

// An Item is one thing to be placed. Items of one app are interchangeable but
// for the random tie-break of some policies, which draws from Serial.
type Item struct {
	App    int32  // index into Instance.Apps
	Serial uint64 // running number of the item in its replay or cluster
}

// Knowledge is the level of knowledge of the future that a policy has (see the levels).
type Knowledge uint8

const (
	// K0 covers the item, the machines, the constraints and the past.
	K0 Knowledge = iota
	// K0Clock adds the elapsed share of the arrival period.
	K0Clock
	// K1 adds a forecast per app, possibly wrong.
	K1
	// K1Clock covers the forecast and the elapsed share.
	K1Clock
	// K2 covers the true number of items per app, not their order.
	K2
)

var knowledgeNames = [...]string{"K0", "K0+clock", "K1", "K1+clock", "K2"}

func (k Knowledge) String() string { return knowledgeNames[k] }

// KnowledgeNames lists the names that [ParseKnowledge] takes.
func KnowledgeNames() []string { return knowledgeNames[:] }

// ParseKnowledge finds a level by its name.
func ParseKnowledge(name string) (Knowledge, bool) {
	for i, n := range knowledgeNames {
		if n == name {
			return Knowledge(i), true
		}
	}
	return 0, false
}

// Clock reports whether the level includes the elapsed share.
func (k Knowledge) Clock() bool { return k == K0Clock || k == K1Clock }

// Forecast reports whether the level includes expected counts per app.
func (k Knowledge) Forecast() bool { return k == K1 || k == K1Clock }

// A Policy decides on the machines of items. The same value serves any number of
// states at the same time.
type Policy interface {
	// Knowledge is the level whose facts the policy reads from a State; the
	// driver hides the others.
	Knowledge() Knowledge
	// Scorer prepares the policy for one state. The scorer may keep caches
	// that follow the state's versions and journal.
	Scorer(s *State) Scorer
}

// A Scorer ranks machines for an item.
type Scorer interface {
	// Score writes to out[i] the desirability of placing the item on
	// candidates[i]; higher is better. Candidates fit. The result is finite
	// and depends on the state alone, not on the order of candidates.
	Score(item Item, candidates []int32, out []float64)
}

// A ClassScorer is a Scorer whose score depends on a machine through its kind,
// its free amounts, whether it is empty and its position only, and does not
// rise with the position.
// Choose then scores one machine for each class of equal ones: the one with
// the lowest position.
type ClassScorer interface {
	Scorer
	ByClass()
}

// A Switch is a Scorer that leaves each decision to one of several others. Which one is a
// function of the state alone.
type Switch interface {
	Scorer
	// Deciding returns the scorer that decides in the present state, and its description.
	Deciding() (Scorer, Choice)
}

// A Choice is the policy to which a [Switch] leaves a decision.
type Choice struct {
	Name      string
	Digest    string // of the policy
	Knowledge Knowledge
}

// ChoiceOf is the present choice of a scorer; false where it is no [Switch].
func ChoiceOf(scorer Scorer) (Choice, bool) {
	s, ok := scorer.(Switch)
	if !ok {
		return Choice{}, false
	}
	_, choice := s.Deciding()
	return choice, true
}

// deciding is the scorer that decides in the present state.
func deciding(scorer Scorer) Scorer {
	if s, ok := scorer.(Switch); ok {
		scorer, _ = s.Deciding()
	}
	return scorer
}

// A Grower is a Scorer that follows [State.AddApp] and [State.AddRules]. Other scorers
// must be made again after them.
type Grower interface {
	Scorer
	Grows()
}

// A Shortlister is a Scorer that can rule out many machines without scoring them.
type Shortlister interface {
	Scorer
	// Contenders appends to buf the machines that take the item, by ascending
	// index, without some that do not have the highest score. known is false, and
	// buf unchanged, when it cannot determine them.
	Contenders(item Item, buf []int32) (contenders []int32, known bool)
}

// A DeviceChooser picks the devices for an item that is placed on a machine. free
// holds the free share of each device of the dimension, in units of 1/One; the
// chosen indices are appended to devices.
type DeviceChooser interface {
	ChooseDevices(item Item, machine int32, dimension int, free []int64, devices []int32) []int32
}

// SmallestDevices is the choice of devices for scorers without a choice: entirely
// free ones for a demand of at least one, else the one with the smallest sufficient
// share; the lowest index first. It serves a [DeviceChooser] that decides for some
// items only.
func SmallestDevices(free []int64, need, one int64, devices []int32) []int32 {
	return smallestDevices(free, need, one, devices)
}

// ErrNoFit is returned when no machine takes the item.
var ErrNoFit = errors.New("no machine takes the item")

// ErrNotFinite is returned when a scorer gave NaN or an infinity.
var ErrNotFinite = errors.New("score is not finite")
