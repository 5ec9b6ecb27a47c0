package toolschema

import (
	"strconv"
	"strings"
)

// appendNumber writes a valid JSON number as the digits of its integer
// coefficient, without zeros at either end, and the power of ten that it is
// multiplied by: 1200 and 1.20E+3 become 12e2, 1.0 becomes 1, -0 becomes 0.
func appendNumber(dst []byte, number string) []byte {
	number, negative := strings.CutPrefix(number, "-")
	mantissa, exponent := number, ""
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		mantissa, exponent = number[:i], number[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	if significant == "" {
		return append(dst, '0')
	}
	if negative {
		dst = append(dst, '-')
	}
	dst = append(dst, significant...)
	if power := addExponent(exponent, len(digits)-len(significant)-len(fraction)); power != "0" {
		dst = append(append(dst, 'e'), power...)
	}
	return dst
}

// addExponent adds shift to a decimal exponent of any length. The exponent may
// have a sign and leading zeros, the sum has neither a plus nor any.
func addExponent(exponent string, shift int) string {
	digits := strings.TrimLeft(exponent, "+-0")
	negative := strings.HasPrefix(exponent, "-")
	const safe = 18 // digits; such a number and any shift fit into 64 bits together
	if len(digits) <= safe {
		n, _ := strconv.ParseInt(digits, 10, 64) // 0 where there are no digits
		if negative {
			n = -n
		}
		return strconv.FormatInt(n+int64(shift), 10)
	}
	if negative {
		return "-" + addDigits(digits, -shift)
	}
	return addDigits(digits, shift)
}

// addDigits adds shift to a decimal number of more than 18 digits. The sum is
// positive, because no input is long enough to shift by as much.
func addDigits(digits string, shift int) string {
	sum := []byte(digits)
	carry := shift
	for i := len(sum) - 1; i >= 0 && carry != 0; i-- {
		carry += int(sum[i] - '0')
		digit := ((carry % 10) + 10) % 10
		sum[i] = '0' + byte(digit)
		carry = (carry - digit) / 10
	}
	if carry > 0 {
		return strconv.Itoa(carry) + string(sum)
	}
	return strings.TrimLeft(string(sum), "0")
}
