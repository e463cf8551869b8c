package v1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
)

// Defaults of the arguments that have one other than the zero value.
const (
	DefaultPolicyName     = "general"
	DefaultMapping        = config.MappingRank
	DefaultFleet          = config.FleetOpen
	DefaultForecastMaxAge = 5 * time.Minute
	DefaultMaxGracePeriod = 15 * time.Minute // as podspec.MaxGrace

	DefaultDecisionLogBytes = 256 << 20
	DefaultDecisionLogFiles = 8
)

// SetDefaults_SigmaArgs fills in the fields that a file omits. defaulter-gen finds it
// by its name.
//
//nolint:revive // var-naming: the generator wants the underscore
func SetDefaults_SigmaArgs(args *SigmaArgs) {
	fill(&args.PolicyName, DefaultPolicyName)
	fill(&args.CanaryPolicyName, "")
	fill(&args.AppLabel, "")
	fill(&args.Mapping, DefaultMapping)
	fill(&args.Fleet, DefaultFleet)
	fill(&args.Prices, "")
	fill(&args.DecisionLog, "")
	fill(&args.DecisionLogBytes, *resource.NewQuantity(DefaultDecisionLogBytes, resource.BinarySI))
	fill(&args.DecisionLogFiles, DefaultDecisionLogFiles)
	fill(&args.Deadline, metav1.Duration{})
	fill(&args.MaxGracePeriod, metav1.Duration{Duration: DefaultMaxGracePeriod})
	fill(&args.RebalancePrometheus, "")
	fill(&args.ForecastMaxAge, metav1.Duration{Duration: DefaultForecastMaxAge})
}

func fill[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
