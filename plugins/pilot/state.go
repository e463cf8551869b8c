package pilot

import (
	"fmt"
	"strings"
	"time"
)

// Phase is the phase of the loop.
type Phase string

// The phases. A rollout passes through Shadowing, Canarying and GoingLive, as its steps
// define.
const (
	Recording        Phase = "Recording" // no policy of the pilot decides yet
	Training         Phase = "Training"
	Judging          Phase = "Judging"
	AwaitingApproval Phase = "AwaitingApproval"
	Shadowing        Phase = "Shadow"
	Canarying        Phase = "Canary"
	GoingLive        Phase = "Live"
	Watching         Phase = "Watching" // a policy is active
	RolledBack       Phase = "RolledBack"
)

// A State is the memory of the loop. It is stored as JSON.
type State struct {
	Phase Phase `json:"phase"`
	// Since is the beginning of the phase, or the first observation of the rollout step in
	// the cluster.
	Since time.Time `json:"since"`
	// Begun is the first step, Stepped the last.
	Begun   time.Time `json:"begun"`
	Stepped time.Time `json:"stepped"`
	// Rung is the step of the rollout.
	Rung Rung `json:"rung,omitzero"`
	// Seen: the cluster was seen to have the rung since Since.
	Seen bool `json:"seen,omitempty"`
	// InForce is the digest of the policy that should be live; "" = none. Confirmed is the last
	// one seen live.
	InForce   string `json:"inForce,omitempty"`
	Confirmed string `json:"confirmed,omitempty"`
	// Candidate is being judged or rolled out, LastGood is the policy to roll back to; "" =
	// none.
	Candidate string `json:"candidate,omitempty"`
	LastGood  string `json:"lastGood,omitempty"`
	// Trained is the time at which the last training began, Job its name.
	Trained time.Time `json:"trained,omitzero"`
	Job     string    `json:"job,omitempty"`
	// From and Until bound the days to train on, Days are the digests of the days that judge.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	Days  []string  `json:"days,omitempty"`
	// Burnt are the digests of days that were used: they judge nothing again.
	Burnt []string `json:"burnt,omitempty"`
	// Refused are the digests of policies that were rolled back: they are never tried again.
	Refused []string `json:"refused,omitempty"`
	// Alarm is the reason to train before the schedule; "" = no reason. Changed is the time of the
	// last change of the workload, Workload the beginning of that day: older days do not describe the
	// present workload.
	Alarm    string    `json:"alarm,omitempty"`
	Changed  time.Time `json:"changed,omitzero"`
	Workload time.Time `json:"workload,omitzero"`
	// Promised is the expected saving of the candidate or of the active policy.
	Promised *Saving `json:"promised,omitempty"`
}

// ActionKind is the kind of an action.
type ActionKind string

// The kinds of actions. All but events may be repeated.
const (
	Train        ActionKind = "Train"        // Job on the days From … Until, if it has not begun
	Judge        ActionKind = "Judge"        // Digest on Days, if they have not been used
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

// An Outcome is the result of a step.
type Outcome struct {
	State   State
	Actions []Action
	Reasons []string // reasons of the state
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
