"""Answers that mean what a reference means, and answers that only look as if they did. Many are rows of benchmarks."""

from __future__ import annotations

import pytest

pytest.importorskip("math_verify")
from redqueen.extras.benchmarks.maths_process import judge

Case = tuple[str | tuple[str, ...], str]
PHOTON = r"\hbar \omega(v+1 / 2)-\frac{E_{0}^{2} e^{2}}{2 m \omega^{2}}"
CURRENT = r"I(0) e^{-\frac{t}{R C}}"
HALVES = r"(-\infty, 2) \cup (3, \infty)"
VECTOR = r"\begin{pmatrix} -2 \\ -14 \\ -7 \end{pmatrix}"
GROWTH = r"\frac{dM}{dt}=\frac{10^{5} L_{\odot}}{0.007 c^{2} M_{\odot}^{6}} M^{6}"
PLANE = "5x - 7y + 11z + 4 = 0"

RIGHT: dict[str, list[Case]] = {
    "a base": [
        ("52_8", r"52_{8}"), ("52_8", r"52_{\text{8}}"), ("52_8", r"52 \text{ (base 8)}"),
        ("52_8", r"52_{\text{eight}}"),
        ("52_8", "(52)_8"), ("52_8", "x = 52_8"), ("52_8", "52₈"), ("-12_3", "-12_{3}"),
    ],
    "an interval as an inequality": [
        (r"(2,\infty)", "x>2"), (r"(2,\infty)", "2<x"), (r"(3,4]", r"3<x\le 4"), ("[0,1]", r"0\le x\le 1"),
        (r"(-\infty,0]", r"x\leq 0"), (r"(2,\infty)", r"\{x\mid x>2\}"),
        (r"(2,\infty)", r"\{x \in \mathbb{R} : x > 2\}"),
        (r"(2,\infty)", r"x\in(2,\infty)"), (HALVES, r"x<2 \text{ or } x>3"), (HALVES, r"x<2 \lor x>3"),
        (HALVES, "x<2, x>3"), (HALVES, r"\mathbb{R}\setminus[2,3]"), (HALVES, r"(3, \infty)\cup(-\infty, 2)"),
        (r"(0,9) \cup (9,36)", r"0<x<36, x\ne 9"), (r"(0,9) \cup (9,36)", r"(0,36)\setminus\{9\}"),
        (r"x \in [-2,7]", "[-2,7]"), (r"x \in [-2,7]", r"-2\le x\le 7"), (r"(-\sqrt{3}, \sqrt{3})", r"|x|<\sqrt3"),
        (r"$(-\infty, 0) \cup\{1\}$.", r"x<0 \text{ or } x=1"), (r"$k \geqslant 2$", r"2\le k"),
        (r"$k \geqslant 2$", r"[2,\infty)"),
    ],
    "words and signs around": [
        ("6", "= 6"), ("6", r"\approx 6"), ("6", r"x\approx 6"), ("6", r"\text{about } 6"), ("58,500", r"58,500\,"),
        ("58,500", r"58,500\text{ people}"), ("58,500", "x = 58,500"), ("58500", r"58{,}500"), ("58500", "58 500"),
        ("1000000", "1.000.000"), ("18", "€18"), (r"\$18.90", "18.9"), ("12", "12 dollars"), ("12", "12°"),
        ("25", r"25^{\circ}C"), ("25", r"25\,^\circ\mathrm{C}"), (r"120^\circ", r"120\text{ degrees}"),
        ("5", r"5\,\mathrm{m}"),
        (r"864 \mbox{ inches}^2", "864"), (r"864 \mbox{ inches}^2", r"864 \text{ in}^2"),
        (r"864 \mbox{ inches}^2", r"864\text{ square inches}"), (r"15\mbox{ cm}^2", r"15\,\mathrm{cm}^{2}"),
        (r"\frac{37}{4} m", r"9.25\mathrm{~m}"), (r"\text{Evelyn}", r"\textbf{evelyn}"), (r"\text{(C)}", "C"),
        (r"\text{even}", "even"), ("62.5%", "62.5 percent"), (r"8 \%", "8"),
        ("5", "5cm"), ("18", "18dollars"), ("-5", r"\text{negative } 5"), ("25", r"5\text{ squared}"),
        (r"\text{negative}", "negative"), ("60", r"5\text{ dozen}"), ("5", r"5\text{ dozen}"),
        (r"\$1,800,000", r"\$1.8 \text{ million dollars}"), ("5", r"5\text{ cm (rounded to 2 decimals)}"),
    ],
    "words without a command": [
        ("No", r"\text{no}"), ("yes", "Yes"), ("No", "no"), ("yes", r"\text{Yes}"), ("red", r"\text{red}"),
        ("BDE", r"\text{BDE}"), ("New York", r"\text{New York}"),
    ],
    "lists": [
        (("5", "1"), r"x\in\{5, 1\}"), (("5", "1"), r"5\text{, }1"), (("5", "1"), "x = 5, 1"), (("5", "1"), "5; 1"),
        (("5", "1"), r"5\quad\text{and}\quad 1"), (("5", "1"), r"x=5 \text{ or } x=1"), (("2", "-2"), r"x=\pm2"),
        (("(1,2)", "(3,4)"), r"(x,y) \in \{(1,2),(3,4)\}"), (("(1,2)", "(3,4)"), r"(x,y) = (1,2) \text{ or } (3,4)"),
        ("1,-2", r"x=1\text{ or }x=-2"), ("1,-2", r"\{-2,1\}"), (r"1 \pm \sqrt{19}", r"1-\sqrt{19}, 1+\sqrt{19}"),
        (r"\{1\pm\sqrt{5},-2\}", r"-2, 1+\sqrt5, 1-\sqrt5"), ("f(n)=n, g(n)=1", "g(n)=1, f(n)=n"), ("5", r"\{5\}"),
        (("6764", "10945"), "6,764, 10,945"), ("6764, 10945", "6,764, 10,945"),
        (("10^{3}", "10"), r"1,000\text{ or }10"),
        (("1", "200", "300"), r"1,200 \text{ and } 300"), (("5", "6", "7"), r"5\text{ or 6 or 7}"),
    ],
    "a point": [
        ("(5,3)", "x=5, y=3"), ("(5,3)", "y=3, x=5"), ("(5,3)", "n=5, k=3"), ("(1,2,3)", "c=3, a=1, b=2"),
    ],
    "values": [
        (r"\frac{1}{3}", r"0.\overline{3}"), (r"\frac{1}{6}", r"0.1\dot{6}"), (r"\sin 30^\circ", r"\frac12"),
        ("1", "tan 45°".replace("tan", r"\tan")), (r"\frac{\sqrt3}{2}", r"\sin(60^{\circ})"),
        (r"(2,\infty)", r"(2,+\infty)"),
        (r"\epsilon", r"\varepsilon"), (r"\emptyset", r"\varnothing"), ("-1./3", "-1/3"), ("3.83e35", "3.83e+35"),
        ("np.arcsin(10/13)", r"\arcsin(10/13)"), (r"\pi", r"\pi \approx 3.14"), ("5", "2+3=5"), (r"\frac{1}{2}", ".5"),
        (VECTOR, VECTOR.replace("pmatrix", "bmatrix")), ("(6,31,-1)", r"\langle 6, 31, -1\rangle"),
        ("3+2i", r"3+2\mathrm{i}"),
    ],
    "products": [
        ("6", "2(3)"), ("6", "(2)(3)"), ("21", r"\frac{7(6)}{2}"), ("60", "5(4)(3)"), ("42", "7(6)=42"),
        ("30", r"3\binom52"),
        (r"\frac32", r"2\left(\frac34\right)"), (r"\frac72", r"3\frac12"), ("3", r"\log_2(8)"),
        (r"\frac{1}{2(x+1)}", "1/2(x+1)"),
    ],
    "the imaginary unit": [
        (r"-2+2 \sqrt{3} i", r"-2+2i\sqrt{3}"), ("3+4i", "4 i + 3"), (r"\frac{1+i\sqrt3}{2}", r"e^{i\pi/3}"),
        (r"\frac{e^{2 i t}}{(2+2 i)}", r"\frac{1-i}{4}e^{2it}"), ("i", r"\sqrt{-1}"), (r"i+\sum_{i=1}^3 i", "6+i"),
        (r"\begin{pmatrix} i \\ 2 \end{pmatrix}", r"\begin{pmatrix} 1\cdot i \\ 2 \end{pmatrix}"),
    ],
    "an index": [
        ("E_{1},E_{2}", "E_1, E_2"), (r"\frac{1}{3} E_{1}+\frac{2}{3} E_{2}", r"\frac{E_1+2E_2}{3}"),
        (r"\gamma_1", r"\gamma_{1}"), ("2E'", r"E' \cdot 2"), (r"E_{\text{max}}", r"E_\text{max}"), ("x_{12}", "x_12"),
        ("v_{0}t", "v_0t"), ("R I_{0}", "I_0 R"), ("2mE_{1}", "mE_1 2"), ("I(0) + 1", "1 + I(0)"),
    ],
    "Unicode": [
        ("1/2", "½"), (r"\frac32", "1½"), (r"\sqrt2", "√2"), (r"3\sqrt{x+1}", "3√(x+1)"), ("x^2", "x²"),
        (r"10^{-3}", "10⁻³"),
        (r"(0,\infty)", "(0, ∞)"), (r"2\pi", "2π"), (r"-\frac{35}{9}", "−35/9"), (r"\theta^2", "θ²"),
        ("[0,1]", "0 ≤ x ≤ 1"),
        ("3", "３"), ("x", "𝑥"), (r"3 \times 10^5", "3×10⁵"),
    ],
    "no LaTeX": [
        (r"\frac{\sqrt2}{2}", "sqrt(2)/2"), (r"2\pi", "2pi"), (r"2\pi", "2*pi"), ("x^2", "x**2"),
        ("[0,1]", "0 <= x <= 1"), ("1e-5", "10^-5"), ("1/x", "x^-1"),
        (HALVES, "(-inf,2) U (3,inf)"), ("1,-2", "{1, -2}"), (r"1 \pm \sqrt{19}", "1 +/- sqrt(19)"),
        (r"\sin x", "sin(x)"),
    ],
    "digits that repeat": [
        (r"\frac13", r"0.333\ldots"), (r"\frac13", "0.3333..."), (r"\frac17", r"0.\dot{1}4285\dot{7}"),
        (r"\frac13", "0.(3)"), (r"\frac{4}{11}", r"0.363636\dots"), (r"\frac13", "0.3\u0305"),
    ],
    "other commands": [
        ("|x|", r"\lvert x\rvert"), (r"\sqrt[3]{2}", r"\sqrt[3]2"),
        ("10", r"\binom52"), (r"\binom{n}{k}", r"\binom nk"), (r"\binom{2n}{n}", r"2n \choose n"),
        (r"\frac{\binom{2n}{n}}{n+1}", r"\frac{2n \choose n}{n+1}"), (r"m \ddot{\theta}", r"m\ddot\theta"),
        ("5", r"\large 5"), ("(1,2)", r"\color{blue}{(1,2)}"), ("5", r"\textcolor{red}5"), ("5", r"\underline{5}"),
        (VECTOR, VECTOR.replace(r"\\", r"\\[4pt]")), (r"(-\infty,\infty)", r"\mathbb R"), ("6", r"\mathbf{6}"),
        ("5", r"\text{x = 5}"),
        (r"15\mbox{ cm}^2", r"15\text{ cm^2}"), ("5", r"5\,\mathrm{m\,s^{-1}}"), ("5", r"5\text{m}/\text{s}"),
    ],
    "equations": [
        ("5", "5 = x"), ("x=5", "5"), ("5", "x = 5"), ("y = 2x + 3", "2x+3"), ("y = 2x + 3", "2x - y + 3 = 0"),
        (PLANE, "10x - 14y + 22z = -8"),
        ("$f(x)=2 x$", "2x"), (r"$m_{\max }=n^{2}-n-1$", r"m_{\text{max}} = n^2-n-1"),
        (r"(3,\frac{\pi}{2})", r"(r,\theta) = (3,\pi/2)"),
        ("5", "AB = 5"), ("90", r"\angle ABC = 90^\circ"), ("MR=SRMC", "SRMC=MR"),
        ("7", "f(f(2)) = 7"), ("2", "f^{-1}(3) = 2"), ("2", "P(X=3) = 2"), ("24", "[ABC] = 24"),
    ],
}  # fmt: skip

WRONG: dict[str, list[Case]] = {
    "letters have case": [
        ("500", r"5 \text{ hundredths}"),
        (r"60\text{ dozen}", r"5\text{ dozen}"),
        (r"\frac{M}{m}", "1"), (r"\frac{M}{m}", r"\frac{m}{M}"), (r"\pi(R^2-r^2)", "0"), ("M-m", "0"), ("3R^2", "3r^2"),
        ("M", "m"), ("R_E", "R_e"), ("n", "N"), (r"\Delta", r"\delta"), (r"\Gamma", r"\gamma"), ("E_1", "e_1"),
        ("2i", "2I"), ("2I_0", "2I_1"), ("I^2", "-1"), (r"x_{I}", "x_{i}"),
    ],
    "a base is part of the number": [
        ("52_8", "52_9"), ("4210_{5}", "4210_{6}"), ("40_9", "40"), ("204", "204_7"), ("-50", "-50_7"), ("2", "10_2"),
    ],
    "sets, points and intervals": [
        (r"(2,\infty)", r"\{2,\infty\}"), ("(0,1)", r"\{0,1\}"), ("(-2,1)", r"\{-2,1\}"), (r"\{1,2\}", "(1,2)"),
        ("(3,4]", "[3,4)"), ("(3,4]", "3<x<4"), ("(3,4]", "3,4"), (r"(2,\infty)", "2"), (r"(2,\infty)", r"x\ge 2"),
        ("(1,2)", "(2,1)"), ("(5,3)", "y=5, x=3"), ("1234", "(1,234)"),
        ("(6,31,-1)", r"\{6,31,-1\}"), (HALVES, r"(-\infty, 2)"), (HALVES, r"(-\infty, 2] \cup (3, \infty)"),
        (HALVES, "2<x<3"),
    ],
    "part of an equation": [
        ("x+y=3", "3"), ("3", "x+y=3"), (PLANE, "0"), (PLANE, "5x - 7y + 11z = 0"), ("$N=n$", "N=n+1"),
        ("y = 2x+3", "x = 2x+3"),
        ("x=5", "y=5"), ("3", "9=3"), ("3", "x^2=3"), ("3", "x>3"), ("MR=SRMC", "MR"),
        ("3", "x^{2}(x+1)=3"),
    ],
    "half a reading": [
        (GROWTH, GROWTH.replace("10", "20")), (GROWTH, r"\frac{dM}{dt}=0"), (r"\frac{dx}{dt}", "0"),
        (PHOTON, f"{PHOTON}+1"), (PHOTON, f"2({PHOTON})"), (r"864 \mbox{ inches}^2", r"864 \mbox{ inches}^9"),
        ("6m", "6"),
        ("7.6 Z", "7.6"), (CURRENT, "0"), ("u(t)", "t"), ("y'", "y"), ("m_{p}", "m_{e}"), ("5", "5x"),
        ("3+2i", "5"), ("3+4i", "3-4i"),
        (r"\ln 2 + i\pi / 3", r"\ln 2 - i\pi / 3"), ("5", "2(3)"), ("13", "7(6)"), ("5", "5_{}x"), ("E_1", "E_2"),
        ("5", r"5\text{ squared}"), ("5", r"\text{negative } 5"), ("5", r"\text{not } 5"), ("No", r"\text{Yes}"),
        ("no", "Yes"), (r"5.4 \text{ cents}", r"5.4 \text{ dollars}"), (r"15\mbox{ cm}^2", "15 cm^3"),
    ],
    "lists": [
        ("1,-2", "1"), (r"1 \pm \sqrt{19}", r"1+\sqrt{19}"), ("2", r"\pm 2"), ("5", "5, 6"),
        ("5", r"5 \text{ or } 6"), ("5", r"5 \text{ or 6}"),
        ("5", r"5\text{ if n is odd and 6 if n is even}"), ("5", r"5\text{ feet and 3 inches}"),
        (("5", "1"), "5"), (("5", "1"), r"x\in\{5,2\}"), (("1", "2"), "(1,2)"), ("3, 5, 7", "3,5,7,9"),
    ],
    "values": [
        (r"\pi", "3.14"), (r"\frac13", "0.33"), (r"\sin 30^\circ", r"\sin 30"), ("10!", "10"), ("x^2", "x2"),
        ("-1", "1"),
        (r"\text{even}", "odd"), (r"\text{(C)}", "B"), (VECTOR, VECTOR.replace("-7", "7")), ("12", r"3\quad 4"),
        ("12", "3 4"), ("1.5", "1,5"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", RIGHT)
def test_another_spelling_is_right(kind: str) -> None:
    assert [case for case in RIGHT[kind] if verdict(*case) != "correct"] == []


@pytest.mark.parametrize("kind", WRONG)
def test_another_meaning_is_wrong(kind: str) -> None:
    assert [case for case in WRONG[kind] if verdict(*case) != "wrong"] == []


@pytest.mark.parametrize("reference", sorted({case[0] for cases in WRONG.values() for case in cases}, key=str))
def test_every_reference_is_right_against_itself(reference: str | tuple[str, ...]) -> None:
    assert verdict(reference, reference if isinstance(reference, str) else ", ".join(reference)) == "correct"


def verdict(reference: str | tuple[str, ...], answer: str) -> str:
    return judge((reference,) if isinstance(reference, str) else reference, answer)[0]
