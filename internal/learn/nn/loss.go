package nn

import "fmt"

// MSE returns the mean over all elements of (predicted − target)², and writes its
// gradient by the predictions to grad. All have one size.
func MSE[T Float](predicted, target, grad Matrix[T]) T {
	target.want("target", predicted.Rows, predicted.Cols)
	grad.want("gradient", predicted.Rows, predicted.Cols)
	n := T(len(predicted.Data))
	var sum T
	for i, p := range predicted.Data {
		d := p - target.Data[i]
		sum += d * d
		grad.Data[i] = 2 * d / n
	}
	return sum / n
}

// Pinball returns the mean pinball loss of quantiles, and writes its gradient by the
// predictions to grad. Target is batch × values; predicted and grad are batch ×
// values·len(quantiles), the quantiles of a value side by side. With a target y and a
// prediction p of the quantile q the loss is
//
//	max(q·(y − p), (q − 1)·(y − p))
//
// (Koenker and Bassett 1978); where y = p the gradient is 0.
func Pinball[T Float](predicted, target Matrix[T], quantiles []T, grad Matrix[T]) T {
	for _, q := range quantiles {
		if q > 0 && q < 1 {
			continue
		}
		panic(fmt.Sprintf("nn: quantile %v, want one between 0 and 1", q))
	}
	predicted.want("prediction", target.Rows, target.Cols*len(quantiles))
	grad.want("gradient", predicted.Rows, predicted.Cols)
	n := T(len(predicted.Data))
	var sum T
	for i, y := range target.Data {
		for j, q := range quantiles {
			at := i*len(quantiles) + j
			switch d := y - predicted.Data[at]; {
			case d > 0:
				sum += q * d
				grad.Data[at] = -q / n
			case d < 0:
				sum += (q - 1) * d
				grad.Data[at] = (1 - q) / n
			default:
				grad.Data[at] = 0
			}
		}
	}
	return sum / n
}
