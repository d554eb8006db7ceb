"""The page's style sheet: one column of text, light and dark, A4 in print, 390 px on a phone."""

from __future__ import annotations

from planner.report.figures.style import DARK, LIGHT

__all__ = ["sheet"]

_LIGHT = {
    "paper": "#ffffff",
    "well": "#f5f7f9",
    "shade": "#1b233038",
    "met": "#12703a",
    "missed": "#b42318",
    "open": "#86690a",
}
_DARK = {
    "paper": "#12161d",
    "well": "#1a2029",
    "shade": "#e8ebf04d",
    "met": "#5fd08d",
    "missed": "#ff8f85",
    "open": "#dcc052",
}


def sheet() -> str:
    """The style sheet."""
    light, dark = _variables({**LIGHT, **_LIGHT}), _variables({**DARK, **_DARK})
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{_RULES}"
    )


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())


_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:400 16px/1.5 -apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,"Liberation Sans",system-ui,sans-serif;font-variant-numeric:tabular-nums lining-nums;
overflow-wrap:break-word}
header,main,footer{max-width:76rem;margin:0 auto;padding:0 clamp(1rem,4vw,3rem)}
header{padding-top:2.5rem}
a{color:var(--p0)}
:focus-visible{outline:2px solid var(--p0);outline-offset:2px}
.skip{position:absolute;left:-99rem}.skip:focus{position:static}
.eyebrow{margin:0;color:var(--soft);font-size:.8rem;letter-spacing:.09em;text-transform:uppercase}
h1{margin:.2rem 0 .6rem;font-size:clamp(1.55rem,3.4vw,2.25rem);line-height:1.15;font-weight:680;letter-spacing:-.018em;
text-wrap:balance}
h2{margin:3rem 0 1rem;padding-top:1rem;border-top:2px solid var(--ink);font-size:1.3rem;line-height:1.25;
font-weight:660;letter-spacing:-.01em}
.part{margin:2.4rem 0 .7rem;padding:0;border:0;font-size:1.02rem;font-weight:660;letter-spacing:-.003em}
.figure{margin:0 0 .45rem;font-size:.95rem;font-weight:640}
p{margin:.4rem 0;max-width:46rem}
ul{margin:.4rem 0;padding-left:1.15rem;max-width:52rem}li{margin:.25rem 0}
.variant>section:first-of-type .part{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.question{font-size:1.06rem;color:var(--soft);max-width:50rem;margin-bottom:.9rem}
.verdict{max-width:56rem;margin:.2rem 0;padding:.15rem 0 .15rem 1.1rem;border-left:4px solid var(--open);
font-size:clamp(1.05rem,1.9vw,1.26rem);line-height:1.45}
.verdict.met{border-color:var(--met)}.verdict.missed{border-color:var(--missed)}
.verdict strong{font-weight:720}.verdict.met strong{color:var(--met)}.verdict.missed strong{color:var(--missed)}
.verdict.open strong{color:var(--open)}
.verdict data{font-weight:640;white-space:nowrap}
.price{max-width:56rem;margin:.7rem 0 0 1.35rem}.price data{font-weight:640;white-space:nowrap}
.q{color:var(--soft);white-space:nowrap;font-size:.86em}
.note,figcaption,.sub{color:var(--soft);font-size:.84rem;line-height:1.42}
.note{max-width:56rem;margin-top:.6rem}
.scroll{overflow-x:auto;max-width:100%;background:linear-gradient(90deg,var(--paper) 40%,transparent),
linear-gradient(270deg,var(--paper) 40%,transparent) 100% 0,
radial-gradient(farthest-side at 0 50%,var(--shade),transparent),
radial-gradient(farthest-side at 100% 50%,var(--shade),transparent) 100% 0;background-repeat:no-repeat;
background-size:40px 100%,40px 100%,12px 100%,12px 100%;background-attachment:local,local,scroll,scroll}
table{border-collapse:collapse;width:100%;font-size:.9rem;line-height:1.35}
caption{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
th,td{padding:.42rem .8rem .42rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th:last-child,td:last-child{padding-right:0}
thead th{color:var(--soft);font-weight:500;font-size:.8rem;vertical-align:bottom;border-bottom:1.5px solid var(--ink);
white-space:nowrap}
tbody th{font-weight:600}th.short{white-space:nowrap}
.n{text-align:right}td.n{white-space:nowrap}
.pool{white-space:nowrap}.pool.long{white-space:normal;overflow-wrap:break-word}
tbody th{max-width:17rem;overflow-wrap:break-word}
.sw{display:inline-block;width:.72em;height:.72em;margin-right:.42em;border-radius:2px;vertical-align:-.02em}
.track{display:block;height:3px;margin-top:.3rem;background:var(--line);border-radius:2px}
.bar{display:block;height:3px;border-radius:2px}
.p0{background:var(--p0)}.p1{background:var(--p1)}.p2{background:var(--p2)}.p3{background:var(--p3)}
.p4{background:var(--p4)}.p5{background:var(--p5)}.bar.ink{background:var(--mark)}
.mark{font-weight:640;white-space:nowrap}.mark.met{color:var(--met)}.mark.missed{color:var(--missed)}
.assumed{font-weight:640;color:var(--open)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(11.2rem,1fr));gap:0 1.6rem;margin:.2rem 0}
.cards>div{padding:.7rem 0 .75rem;border-top:1px solid var(--line)}
.cards dt{font-size:.84rem;color:var(--soft)}.cards dd{margin:0}
.cards .big{font-size:1.5rem;line-height:1.25;font-weight:660;letter-spacing:-.015em}
.cards .unit,.cards .between{font-size:.78rem;color:var(--soft);line-height:1.35}
.cards .facts{font-weight:640;color:var(--ink)}
.figures{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:2.2rem 3rem;align-items:start}
figure{margin:0;min-width:0}figure.alone{max-width:36rem;margin-top:1.2rem}
figcaption{margin-top:.5rem}
.fig{display:block;width:100%;height:auto;font-family:"Helvetica Neue",Helvetica,Arial,"Liberation Sans",sans-serif}
.plan{display:block;width:100%;min-width:42rem;max-width:52rem;margin:1.2rem 0 .2rem}
.plan text{font-size:11.5px;fill:var(--ink)}
.plan .soft{fill:var(--soft)}.plan .grid{stroke:var(--line)}.plan .stands{fill-opacity:.55}
.k0{fill:var(--p0)}.k1{fill:var(--p1)}.k2{fill:var(--p2)}.k3{fill:var(--p3)}.k4{fill:var(--p4)}.k5{fill:var(--p5)}
.whole{fill:var(--mark)}
.live{display:none;position:relative;width:100%;user-select:none;-webkit-user-select:none;touch-action:pan-y}
.live svg{display:block;width:100%!important;height:auto!important;overflow:visible}
@media screen{.is-live>.live{display:block}.is-live>svg.fig{display:none}}
[data-figure=operating-point] svg text{paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-linejoin:round}
.live [class*=" live"] path{cursor:crosshair}
.live .mark-rect[class*=" live"] path:hover{fill-opacity:.09!important}
.live .mark-symbol[class*=" live"] path:hover{fill-opacity:1!important}
.live .mark-rect:not([class*=" live"]) path[aria-label]:hover,.live .mark-symbol:not([class*=" live"]) path:hover{
stroke:var(--ink);stroke-width:1.5px}
.brush{position:absolute;background:var(--p0);opacity:.18;pointer-events:none}
.tip{position:fixed;z-index:3;max-width:min(22rem,94vw);padding:.42rem .6rem;border:1px solid var(--line);
border-radius:5px;background:var(--paper);color:var(--ink);box-shadow:0 3px 14px #0003;font-size:.8rem;line-height:1.4;
pointer-events:none;overflow-wrap:anywhere}
.tip[hidden],.brush[hidden]{display:none}.tip b,.tip span{display:block}.tip b{font-weight:640}
.told{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.tools{display:flex;flex-wrap:wrap;gap:.35rem 1.6rem;align-items:center;margin:.2rem 0 1.1rem;font-size:.82rem;
color:var(--soft)}
.tools:empty{display:none}.tools .row{display:inline-flex;flex-wrap:wrap;gap:.3rem;align-items:center}
.tools .name{margin-right:.25rem}.tools .hint{margin-left:.3rem}
.tools button{font:inherit;color:var(--ink);background:var(--well);border:1px solid var(--line);border-radius:5px;
padding:.14rem .55rem;min-height:1.75rem;min-width:1.9rem;cursor:pointer}
.tools .chip{max-width:min(20rem,80vw);overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.tools button:hover:not(:disabled){border-color:var(--soft)}.tools button:disabled{opacity:.5;cursor:default}
.tools button[aria-pressed=true]{border-color:var(--ink);box-shadow:inset 0 0 0 1px var(--ink);font-weight:640}
@media (hover:none){.tools .hint{display:none}}
.sheet{margin:.45rem 0 0}.sheet summary{font-size:.82rem}.sheet .scroll{max-height:20rem;overflow:auto}
pre{overflow-x:auto;margin:.6rem 0;padding:.8rem 1rem;background:var(--well);border-radius:6px;font-size:.86rem}
code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;font-size:.92em;
overflow-wrap:anywhere}
pre code{font-size:1em;overflow-wrap:normal}
details{margin:.8rem 0}summary{cursor:pointer;font-size:.9rem;color:var(--soft)}
details table{font-size:.82rem}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;list-style:none;padding:0;margin:.4rem 0;font-size:.92rem}
footer{margin-top:3rem;padding-top:1rem;padding-bottom:3rem;color:var(--soft);font-size:.82rem}
@media (max-width:54rem){.figures{grid-template-columns:minmax(0,1fr)}}
@media (max-width:34rem){
body{font-size:15px}header{padding-top:1.5rem}
table{font-size:.84rem}th,td{padding-right:.8rem;white-space:nowrap}
tbody th{white-space:normal;max-width:11rem}.wrap{white-space:normal;min-width:15rem}
.cards{grid-template-columns:repeat(2,minmax(0,1fr));gap:0 1.1rem}.cards .big{font-size:1.3rem}
}
@page{size:A4;margin:13mm 14mm}
@media print{
:root{color-scheme:light}
html{font-size:9pt}body{font-size:1rem;line-height:1.36}
header,main,footer{max-width:none;padding:0}
header{padding-top:0}
h1{font-size:17pt}h2{margin-top:1.1rem;padding-top:.5rem;font-size:12.5pt}
.part{margin:1rem 0 .35rem;padding:0;font-size:10.5pt}
.verdict{font-size:11pt;line-height:1.38}.question{margin-bottom:.5rem}
.scroll{overflow:visible;background:none}
table{font-size:7.9pt}th,td{padding:.24rem .5rem .24rem 0}td.n,thead th{white-space:normal}
.cards{grid-template-columns:repeat(4,1fr)}.cards>div{padding:.35rem 0}.cards .big{font-size:13pt}
.figures{grid-template-columns:repeat(2,minmax(0,1fr));gap:.9rem 1.2rem}
figure,tr,.cards>div{break-inside:avoid}h2,h3,h4,.part{break-after:avoid}
.breaks{break-before:page}
.variant+.variant{break-before:page}
a{color:inherit;text-decoration:none}nav,.skip,.tools,.tip,.sheet{display:none}
}
"""
