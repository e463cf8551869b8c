// Package validation checks the arguments of the plugin Sigma.
package validation

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
)

// ValidateSigmaArgs reports all errors of the arguments, each
// with its field below path, which may be nil.
func ValidateSigmaArgs(path *field.Path, args *config.SigmaArgs) error {
	var wrong field.ErrorList
	invalid := func(name string, value any, why string) {
		wrong = append(wrong, field.Invalid(path.Child(name), value, why))
	}
	objectName := func(name, value string) {
		for _, why := range apivalidation.NameIsDNSSubdomain(value, false) {
			invalid(name, value, why)
		}
	}
	oneOf := func(name, value string, known ...string) {
		if !slices.Contains(known, value) {
			wrong = append(wrong, field.NotSupported(path.Child(name), value, known))
		}
	}

	if args.PolicyName == "" {
		wrong = append(wrong, field.Required(path.Child("policyName"), "the PlacementPolicy that decides"))
	} else {
		objectName("policyName", args.PolicyName)
	}
	if args.CanaryPolicyName != "" {
		objectName("canaryPolicyName", args.CanaryPolicyName)
		if args.CanaryPolicyName == args.PolicyName {
			invalid("canaryPolicyName", args.CanaryPolicyName, "must not be policyName")
		}
	}
	if args.AppLabel != "" {
		wrong = append(wrong, metav1validation.ValidateLabelName(args.AppLabel, path.Child("appLabel"))...)
	}
	oneOf("mapping", args.Mapping, config.MappingRank, config.MappingLinear)
	oneOf("fleet", args.Fleet, config.FleetOpen, config.FleetFixed)
	absolute := func(name, file string) {
		if file != "" && (!filepath.IsAbs(file) || strings.HasSuffix(file, "/")) {
			invalid(name, file, "must be the absolute path of a file")
		}
	}
	absolute("prices", args.Prices)
	absolute("decisionLog", args.DecisionLog)
	if n := args.DecisionLogBytes; n != 0 && n < config.MinDecisionLogBytes {
		invalid("decisionLogBytes", n, "must be at least 64Ki, or 0: no limit")
	}
	if args.DecisionLogFiles < 0 {
		invalid("decisionLogFiles", args.DecisionLogFiles, "must not be negative; 0 keeps all")
	}
	if args.Deadline.Duration < 0 {
		invalid("deadline", args.Deadline.Duration.String(), "must not be negative; 0 is none")
	}
	if args.ForecastMaxAge.Duration <= 0 {
		invalid("forecastMaxAge", args.ForecastMaxAge.Duration.String(), "must be positive")
	}
	if d := args.MaxGracePeriod.Duration; d != 0 && (d < time.Second || d > 24*time.Hour) {
		invalid("maxGracePeriod", d.String(), "must be 1s to 24h, or 0: 15m")
	}
	if address := args.RebalancePrometheus; address != "" {
		if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			invalid("rebalancePrometheus", address, "must be a URL such as http://prometheus.monitoring:9090")
		}
	}
	return wrong.ToAggregate()
}
