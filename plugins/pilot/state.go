package pilot

import (
	"fmt"
	"strings"
	"time"
)

// Phase is where the loop is.
type Phase string

// The phases. A rollout goes through Shadowing, Canarying and GoingLive, as its steps say.
const (
	Recording        Phase = "Recording" // no policy of the pilot decides yet
	Training         Phase = "Training"
	Judging          Phase = "Judging"
	AwaitingApproval Phase = "AwaitingApproval"
	Shadowing        Phase = "Shadow"
	Canarying        Phase = "Canary"
	GoingLive        Phase = "Live"
	Watching         Phase = "Watching" // a policy is in force
	RolledBack       Phase = "RolledBack"
)

// A State is what the loop remembers. It goes through JSON.
type State struct {
	Phase Phase `json:"phase"`
	// Since is when the phase began, or when it was seen in the cluster.
	Since time.Time `json:"since"`
	// Begun is the first step, Stepped the last.
	Begun   time.Time `json:"begun"`
	Stepped time.Time `json:"stepped"`
	// Rung is the step of the rollout.
	Rung Rung `json:"rung,omitzero"`
	// Seen: the cluster was seen to have the rung since Since.
	Seen bool `json:"seen,omitempty"`
	// InForce is the digest of the policy that is to decide; "" = none. Confirmed is the last that
	// was seen to.
	InForce   string `json:"inForce,omitempty"`
	Confirmed string `json:"confirmed,omitempty"`
	// Candidate is on its way, LastGood is what to go back to; "" = none.
	Candidate string `json:"candidate,omitempty"`
	LastGood  string `json:"lastGood,omitempty"`
	// Trained is when the last training began, Job its name.
	Trained time.Time `json:"trained,omitzero"`
	Job     string    `json:"job,omitempty"`
	// From and Until bound what it trains on, Days are the digests of the days that judge it.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	Days  []string  `json:"days,omitempty"`
	// Burnt are the digests of days that were looked at: they judge nothing again.
	Burnt []string `json:"burnt,omitempty"`
	// Refused are the digests of policies that were rolled back: they do not come again.
	Refused []string `json:"refused,omitempty"`
	// Alarm is why to train before the schedule says so; "" = no reason. Changed is when the workload
	// last changed, Workload the beginning of that day: what is older says nothing of it.
	Alarm    string    `json:"alarm,omitempty"`
	Changed  time.Time `json:"changed,omitzero"`
	Workload time.Time `json:"workload,omitzero"`
	// Promised is what the candidate, or the policy in force, was expected to save.
	Promised *Saving `json:"promised,omitempty"`
}

// ActionKind is what is to be done.
type ActionKind string

// The kinds of actions. All but events may be asked for again and again.
const (
	Train        ActionKind = "Train"        // Job on the days From … Until, if it has not begun
	Judge        ActionKind = "Judge"        // Digest on Days, if they have not been looked at
	SetCandidate ActionKind = "SetCandidate" // the candidate is Digest in Rung; without a digest it decides nothing
	SetPrimary   ActionKind = "SetPrimary"   // Digest is live; without a digest the policy goes to shadow
	Tell         ActionKind = "Event"
)

// An Action is something to be done.
type Action struct {
	Kind        ActionKind
	Job         string
	From, Until time.Time
	Days        []string
	Digest      string
	Rung        Rung
	Text        string // of an event
}

// An Outcome is what a step comes to.
type Outcome struct {
	State   State
	Actions []Action
	Reasons []string // why the state is what it is
}

func (a Action) String() string {
	switch a.Kind {
	case Train:
		return fmt.Sprintf("%s %s on %s to %s", a.Kind, a.Job, a.From.Format(time.DateOnly), a.Until.Format(time.DateOnly))
	case Judge:
		return fmt.Sprintf("%s %s on %s", a.Kind, short(a.Digest), strings.Join(a.Days, ", "))
	case SetCandidate:
		return fmt.Sprintf("%s %s %v", a.Kind, short(a.Digest), a.Rung)
	case SetPrimary:
		return fmt.Sprintf("%s %s", a.Kind, short(a.Digest))
	case Tell:
	}
	return fmt.Sprintf("%s %s", a.Kind, a.Text)
}
