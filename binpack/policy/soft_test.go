package policy

import (
	"strings"
	"testing"

	"github.com/sigma-scheduler/sigma/binpack"
)

const softObject = `apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementPolicy
metadata: {name: soft}
spec:
  featureVersion: 1
  model: rule
  knowledge: K0
  features: []
  weights: []
  rule: {name: bestfit}
  soft: {mode: trade, price: .5}
  maxShareOfApp: .25
`

func TestPolicyStatesWhatPreferencesCount(t *testing.T) {
	o, err := Parse("soft.yaml", []byte(softObject))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.Policy()
	want := binpack.Care{Mode: binpack.SoftTrade, Price: .5, MaxShareOfApp: .25}
	if err != nil || binpack.CareOf(p) != want {
		t.Fatalf("%+v, %v", binpack.CareOf(p), err)
	}
	again, err := Parse("again", o.Bytes())
	if err != nil || again.Spec.Care() != want {
		t.Errorf("%v\n%s", err, o.Bytes())
	}
	plain, err := Parse("plain", []byte(strings.ReplaceAll(strings.ReplaceAll(softObject, "  maxShareOfApp: .25\n", ""), "  soft: {mode: trade, price: .5}\n", "")))
	if err != nil || plain.Digest() != o.Digest() || strings.Contains(string(plain.Bytes()), "hare") {
		t.Errorf("%v: settings of use change the digest, or are written where none is stated", err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"mode: trade", "mode: both", `s:11: spec.soft.mode "both": want keep, trade or ignore`},
		{"price: .5", "price: 0", `s:11: spec.soft.price 0: the mode trade has one above 0, the others none`},
		{"maxShareOfApp: .25", "maxShareOfApp: 1.5", `s:12: spec.maxShareOfApp 1.5: want a number above 0, up to 1`},
		{"maxShareOfApp: .25", "maxShareOfApp: 0", `s:12: spec.maxShareOfApp 0: want a number above 0, up to 1`},
	} {
		if _, err := Parse("s", []byte(strings.Replace(softObject, c.from, c.to, 1))); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v\nwant %s", c.to, err, c.want)
		}
	}
}
