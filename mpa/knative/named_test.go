package knative

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Who gives the template a name and leads the traffic themselves keeps both; our numbers, which nobody has
// judged, go when Knative takes another template.
func TestNamedWithTrafficMeanwhile(t *testing.T) {
	state, seen := begun(t)
	v := &seen.Service
	theirs := []Traffic{{Revision: "web-blue", Percent: 60}, {Revision: "web-1", Percent: 40}}
	v.Named, v.Base, v.Traffic = "web-blue", "other", theirs
	a := Decide(DefaultTiming(), state, seen)
	assert.Equal(t, Restoring, a.State.Phase)
	assert.Nil(t, a.Fields)
	assert.Nil(t, a.Traffic)
	b := Decide(DefaultTiming(), a.State, seen)
	assert.False(t, b.Write, "Knative would refuse it")
	assert.Contains(t, b.Reason, `spec.template.metadata.name: "web-blue" is others'`)
	v.Named = ""
	b = Decide(DefaultTiming(), a.State, seen)
	assert.Equal(t, fresh().Service.Fields, *b.Fields)
	assert.Nil(t, b.Traffic)
	assert.Equal(t, RolledBack, b.State.Phase)
}
