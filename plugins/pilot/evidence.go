package pilot

import "time"

// Evidence is what is known at a time. What is nil is not known.
type Evidence struct {
	// Recorded has the days that are recorded, oldest first.
	Recorded *Recorded
	// Trained is the outcome of the last training that ended.
	Trained *Trained
	// Verdict is the last judgement.
	Verdict *Verdict
	// Approved is the digest of the candidate that a person has let in; "" = none.
	Approved string
	// Cluster is what is in the cluster.
	Cluster *Cluster
	// Measured is what the guard looks at.
	Measured *Measured
	// Drift is what the newest days say of the policy in force.
	Drift *Drift
}

// Recorded is what the recorder has.
type Recorded struct {
	Days []Day
	// Fault says why nothing is recorded now; "" = it is.
	Fault string
}

// A Day is a segment of the recording.
type Day struct {
	Start  time.Time `json:"start"`
	Digest string    `json:"digest"` // of its trace
	// Gap says what is missing of the day; "" = nothing.
	Gap string `json:"gap,omitempty"`
}

// Trained is how a training ended.
type Trained struct {
	Job       string // the name that the action had
	Candidate string // digest; "" = none
	Failed    string // why it failed; "" = it did not
	None      string // why there is no candidate; "" = there is one
}

// Verdict is what the test days say of a candidate.
type Verdict struct {
	Candidate string
	Days      []string // digests of the days that were looked at
	// Savings against the policy in force and the others, by name.
	Savings map[string]Saving
	// Unplaced is how many pods more than under the policy in force found no place.
	Unplaced int
	// WaitPercent is by how many percent pods waited longer than under the policy in force.
	WaitPercent  float64
	PodsOfOneApp int // the most on a node
	// Promised is what the candidate is expected to save against the policy in force.
	Promised Saving
	// Missing says why there is no verdict; "" = there is one.
	Missing string
}

// InForce is the name of the policy in force in a [Verdict].
const InForce = "inForce"

// A Saving is in percent. Low is what at least is saved, with the confidence of the gate.
type Saving struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Cluster is what policies are in the cluster.
type Cluster struct {
	// Primary is the policy that the pilot steers, Candidate the one beside it.
	Primary, Candidate Applied
}

// Applied is a policy in the cluster.
type Applied struct {
	Digest string // "" = there is none
	Rung
}

// decides is the digest of a policy that is live; "" = none is.
func (c *Cluster) decides() string {
	if c.Primary.Mode != Live {
		return ""
	}
	return c.Primary.Digest
}

// Measured is what was seen of a policy in the cluster. A value that is nil or no number is missing.
type Measured struct {
	At     time.Time
	Digest string // of the policy
	Values
}

// Values are what the limits of a [Guard] bound.
type Values struct {
	FallbackShare, PendingSeconds, RuleConflicts, OpenedVsBestFit, CostVsBestFit *float64
}

// Drift is what the newest days say.
type Drift struct {
	At time.Time
	// Changed names what has changed in the workload, with its figures; "" = nothing.
	Changed string
	// Since is when it changed.
	Since time.Time
	// Regret is what a policy retrained on the week before would have saved on Days against the
	// one in force, in percent; nil = not known.
	Regret *Saving
	Days   []string // digests
}
