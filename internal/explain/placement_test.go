package explain

import (
	"strings"
	"testing"
)

// TestShareWithoutSign: a share that is only a rounding error has no sign.
func TestShareWithoutSign(t *testing.T) {
	share, value := -1e-16, 4.0
	v := decision{
		Chosen: &choiceView{Score: 5}, RunnerUp: &choiceView{Score: 4},
		Terms: []termView{{Name: "plan", Weight: 1, Value: 4, Contribution: 4, OtherValue: &value, Other: &value, Share: &share}},
	}
	var out strings.Builder
	v.printChoice(&out, "machine")
	if text := out.String(); !strings.Contains(text, "\t0.0 %") || strings.Contains(text, "-0.0") {
		t.Error(text)
	}
}
