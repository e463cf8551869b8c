package pilot

import "time"

// Evidence is the observed state at one time. A nil field is unknown.
type Evidence struct {
	// Recorded lists the recorded days, oldest first.
	Recorded *Recorded
	// Trained is the outcome of the last training that ended.
	Trained *Trained
	// Verdict is the last judgement.
	Verdict *Verdict
	// Approved is the digest of the candidate that a person approved; "" = not approved.
	Approved string
	// Cluster holds the policies in the cluster.
	Cluster *Cluster
	// Measured holds the values that the guard checks.
	Measured *Measured
	// Drift is the drift that the newest days show for the active policy.
	Drift *Drift
}

// Recorded is the state of the record.
type Recorded struct {
	Days []Day
	// Fault is the reason why nothing is recorded now; "" = recording works.
	Fault string
}

// A Day is a segment of the recording.
type Day struct {
	Start  time.Time `json:"start"`
	Digest string    `json:"digest"` // of its trace
	// Gap describes the missing part of the day; "" = the day is whole.
	Gap string `json:"gap,omitempty"`
}

// Trained is how a training ended.
type Trained struct {
	Job       string // name of the training, from the action
	Candidate string // digest; "" = no candidate
	Failed    string // reason of the failure; "" = it did not fail
	None      string // why there is no candidate; "" = there is one
}

// Verdict is the result of replaying the test days under a candidate.
type Verdict struct {
	Candidate string
	Days      []string // digests of the days that were replayed
	// Savings against the active policy and the others, by name.
	Savings map[string]Saving
	// Unplaced is the number of pods without a place beyond that under the active policy.
	Unplaced int
	// WaitPercent is the increase of the pods' waiting time over the active policy, in
	// percent.
	WaitPercent  float64
	PodsOfOneApp int // the most on a node
	// Promised is the expected saving of the candidate against the active policy.
	Promised Saving
	// Missing is the reason why there is no verdict; "" = there is one.
	Missing string
}

// InForce is the name of the active policy in a [Verdict].
const InForce = "inForce"

// A Saving is in percent. Low is the least saving at the confidence of the gate.
type Saving struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Cluster holds the pilot's policies in the cluster.
type Cluster struct {
	// Primary is the policy that the pilot steers, Candidate the one next to it.
	Primary, Candidate Applied
}

// Applied is a policy in the cluster.
type Applied struct {
	Digest string // "" = there is none
	Rung
}

// decides is the digest of the live policy; "" = no policy is live.
func (c *Cluster) decides() string {
	if c.Primary.Mode != Live {
		return ""
	}
	return c.Primary.Digest
}

// Measured holds values measured of a policy in the cluster. A nil or NaN value is missing.
type Measured struct {
	At     time.Time
	Digest string // of the policy
	Values
}

// Values are the quantities that a [Guard] limits.
type Values struct {
	FallbackShare, PendingSeconds, RuleConflicts, OpenedVsBestFit, CostVsBestFit *float64
}

// Drift is the drift that the newest days show.
type Drift struct {
	At time.Time
	// Changed names the change in the workload, with its figures; "" = no change.
	Changed string
	// Since is the time of the change.
	Since time.Time
	// Regret is the saving in percent that a policy retrained on the week before would have had
	// on Days over the active one; nil = unknown.
	Regret *Saving
	Days   []string // digests
}
